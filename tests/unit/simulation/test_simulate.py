"""`manage.py simulate`: tables and JSON from a scenario file, without a database; each problem is one sentence."""

# ruff: noqa: E501 - rows of tables

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "docs" / "simulation.example.yaml"

CONFIGURATION = """
vos: [{name: lhcb, setup: S, managers: [nobody-here]}]
groups:
- {name: lhcb_user, vo: lhcb, priority: 1}
- {name: lhcb_prod, vo: lhcb, priority: 3, properties: [JOB_SHARING]}
users:
- {username: alice, password: "${NOT_SET}", groups: [lhcb_user]}
- {username: mary, groups: [lhcb_prod], suspended: false}
platforms: {el9: [el8]}
sites:
- name: CERN
  tokens: {register: "${NOT_SET}"}
  ces: [{name: ce, queues: [{name: q, cpu_time_s: 300000, platforms: [el9], max_pilots: 10}]}]
- {name: GRIDKA, ces: [{name: arc, queues: [{name: q, cpu_time_s: 5000, max_pilots: 10}]}]}
"""
LOAD = """
load:
- {user: alice, group: lhcb_user, waiting: 500, cpu_time_s: 5000, run_time: {mean_s: 3600}}
- {user: mary, group: lhcb_prod, waiting: 500, cpu_time_s: 5000, run_time: {mean_s: 3600}}
"""


def scenario(folder: Path, text: str, *, configuration: str | None = CONFIGURATION) -> Path:
    path = folder / "scenario.yaml"
    if configuration is not None:
        (folder / "wms.yaml").write_text(configuration)
        text = f"configuration: wms.yaml\n{text}"
    path.write_text(text)
    return path


def simulated(path: Path, **options: object) -> tuple[str, str]:
    """Return the output and the warnings."""
    out, err = StringIO(), StringIO()
    call_command("simulate", path, stdout=out, stderr=err, **options)
    return out.getvalue(), err.getvalue()


def outcome_of(folder: Path, text: str, **options: object) -> Any:
    """Return the JSON that the command writes."""
    simulated(scenario(folder, text), json_file=folder / "out.json", **options)
    return json.loads((folder / "out.json").read_text())


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(CommandError) as refused:
        simulated(path, **options)
    assert refused.value.returncode != 0
    return str(refused.value).replace(str(path.parent), "")


def test_the_example_prints_every_table_and_the_same_twice(tmp_path: Path) -> None:
    printed, warned = simulated(EXAMPLE, days=0.5)
    assert warned == ""
    titles = [block.splitlines()[0] for block in printed.split("\n\n")]
    assert titles == [
        "0.5 simulated days, seed 1",
        "Shares of groups, within their VO",
        "Jobs of groups",
        "Users, in groups that do not share jobs",
        "CPU segments",
        "Sites",
    ]
    assert simulated(EXAMPLE, days=0.5)[0] == printed
    assert simulated(EXAMPLE, days=0.5, seed=2)[0] != printed


def test_the_documented_output_is_what_the_example_prints() -> None:
    printed, _ = simulated(EXAMPLE)
    assert printed in (ROOT / "docs" / "simulation.md").read_text()


def test_json_says_what_the_tables_say(tmp_path: Path) -> None:
    told = outcome_of(tmp_path, LOAD, days=1)
    assert [(group["group"], group["configured_share"]) for group in told["groups"]] == [
        ("lhcb_user", 0.25),
        ("lhcb_prod", 0.75),
    ]
    # 20 slots, jobs of an hour: 480 starts, of which 3/4 with a standard deviation of 9.5.
    assert told["groups"][1]["delivered"]["started"] == pytest.approx(360, abs=38)
    assert [user["user"] for user in told["users"]] == ["alice"]
    assert [site["utilization"] for site in told["sites"]] == [1.0, 1.0]


def test_a_scenario_overrides_parts_of_the_configuration(tmp_path: Path) -> None:
    what_if = "groups: [{name: lhcb_user, vo: lhcb, priority: 3}]\nsites: [{name: CERN, ces: [{name: ce, queues: [{name: q, cpu_time_s: 300000, max_pilots: 40}]}]}]"
    told = outcome_of(tmp_path, what_if + LOAD, days=0.1)
    assert [group["configured_share"] for group in told["groups"]] == [0.5, 0.5]
    assert [(site["site"], site["slots"]) for site in told["sites"]] == [("CERN", 40), ("GRIDKA", 10)]


@pytest.mark.parametrize(
    ("requirement", "started_at"),
    [
        ("sites: [CERN]", {"CERN"}),
        ("banned_sites: [CERN]", {"GRIDKA"}),
        ("grid_ces: [arc]", {"GRIDKA"}),
        ("platforms: [el8]", {"CERN", "GRIDKA"}),
        ("platforms: [el7]", {"GRIDKA"}),
        ("cpu_time_s: 300000", {"CERN"}),
    ],
)
def test_jobs_run_where_a_match_would_give_them(tmp_path: Path, requirement: str, started_at: set[str]) -> None:
    load = f"load: [{{user: alice, group: lhcb_user, jobs_per_day: 1000, run_time: {{mean_s: 60}}, {requirement}}}]"
    if "cpu_time_s" not in requirement:
        load = load.replace("run_time:", "cpu_time_s: 500, run_time:")
    told = outcome_of(tmp_path, load, days=1)
    assert {site["site"] for site in told["sites"] if site["started"]} == started_at


def test_unconfigured_users_may_submit_if_no_users_are_configured(tmp_path: Path) -> None:
    text = """
vos: [{name: lhcb, setup: S}]
groups: [{name: lhcb_user, vo: lhcb}]
load: [{user: anybody, group: lhcb_user, waiting: 1, run_time: {mean_s: 60, sigma: 0.5}}]
"""
    printed, warned = simulated(scenario(tmp_path, text, configuration=None), days=0.1)
    assert "anybody" in printed
    assert warned == "warning: load[0]: fits no slot of any site; these jobs only wait\n"


def test_a_suspended_user_starts_nothing(tmp_path: Path) -> None:
    suspend = "users: [{username: alice, suspended: true}]"
    told = outcome_of(tmp_path, suspend + LOAD, days=0.1)
    assert told["users"][0]["delivered"]["started"] == 0


def test_a_site_that_is_not_active_runs_nothing(tmp_path: Path) -> None:
    ban = "sites: [{name: CERN, status: {state: banned, reason: fire}}]"
    told = outcome_of(tmp_path, ban + LOAD, days=0.1)
    assert [(site["slots"], site["started"] > 0) for site in told["sites"]] == [(10, False), (10, True)]


def test_an_empty_load_is_simulated(tmp_path: Path) -> None:
    told = outcome_of(tmp_path, "load: []", days=0.1)
    assert [group["delivered"]["submitted"] for group in told["groups"]] == [0, 0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LOAD.replace("waiting", "waitng", 1), 'line 4: load[0].waitng: unknown key. Did you mean "waiting"?'),
        (LOAD.replace("run_time", "runtime", 1), 'line 4: load[0].runtime: unknown key. Did you mean "run_time"?'),
        (LOAD.replace("load", "loads", 1), 'line 3: loads: unknown key. Did you mean "load"?'),
        (LOAD.replace("mean_s", "mean", 1), 'line 4: load[0].run_time.mean: unknown key. Did you mean "mean_s"?'),
        (
            LOAD.replace("lhcb_user", "lhcb_usr", 1),
            'line 4: load[0].group: there is no group "lhcb_usr". Did you mean "lhcb_user"?',
        ),
        (LOAD.replace("alice", "alicia", 1), 'line 4: load[0].user: there is no user "alicia". Did you mean "alice"?'),
        (LOAD.replace("alice", "mary", 1), "line 4: load[0].group: mary is not in lhcb_user; in: lhcb_prod"),
        (
            LOAD.replace("waiting: 500", "banned_sites: [CERM], waiting: 5", 1),
            'line 4: load[0].banned_sites[0]: there is no site "CERM". Did you mean "CERN"?',
        ),
        (
            LOAD.replace("waiting: 500", "sites: [CERN], banned_sites: [CERN], waiting: 5", 1),
            "line 4: load[0].banned_sites: bans every site that the jobs name",
        ),
        (
            LOAD.replace("waiting: 500, ", "", 1),
            "line 4: load[0]: submits nothing; give jobs_per_day, or the number of jobs that are waiting at the start",
        ),
        (LOAD.replace("waiting: 500", "jobs_per_day: -1", 1), "line 4: load[0].jobs_per_day: must be from 0 to 1e+06"),
        (LOAD.replace("waiting: 500", "waiting: 5, priority: 11", 1), "line 4: load[0].priority: must be from 0 to 10"),
        (
            "sites: [{name: CERN, ces: [{name: ce, queues: [{name: q, cpu_time_s: 9, required_tags: [a]}]}]}]" + LOAD,
            "line 2: sites[0].ces[0].queues[0].required_tags: must be among the queue's tags, where a is missing",
        ),
    ],
)
def test_errors_are_one_sentence_with_the_nearest_name(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in refusal(scenario(tmp_path, text)).splitlines()[1:]


def test_errors_in_the_configuration_name_their_entry(tmp_path: Path) -> None:
    wrong = CONFIGURATION.replace("vo: lhcb, priority: 1", "vo: lhbc, priority: 1")
    assert refusal(scenario(tmp_path, LOAD, configuration=wrong)) == (
        '/wms.yaml is not accepted. 1 problem:\nline 4: groups[0].vo: there is no vo "lhbc". Did you mean "lhcb"?'
    )


def test_a_name_or_number_is_not_taken_from_a_variable_that_is_not_set(tmp_path: Path) -> None:
    wrong = CONFIGURATION.replace("name: GRIDKA", 'name: "${NOT_SET}"')
    assert 'line 14: sites[1].name: "${NOT_SET}" is not accepted' in refusal(
        scenario(tmp_path, LOAD, configuration=wrong)
    )


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.yaml") == "/none.yaml cannot be read: No such file or directory."
    missing = scenario(tmp_path, LOAD)
    (tmp_path / "wms.yaml").unlink()
    assert refusal(missing) == "/wms.yaml cannot be read: No such file or directory."
    unwritable = tmp_path / "none" / "out.json"
    assert refusal(EXAMPLE, days=0.01, json_file=unwritable).endswith("cannot be written: No such file or directory.")


@pytest.mark.parametrize("days", [0.0, -1.0, 367.0, float("nan"), float("inf")])
def test_the_number_of_days_is_bounded(days: float) -> None:
    assert refusal(EXAMPLE, days=days) == "--days must be above 0 and at most 366."


@pytest.mark.parametrize(("option", "value"), [("--days", "x"), ("--seed", "1.5")])
def test_a_wrong_value_is_reported_without_internal_terms(option: str, value: str) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("simulate", EXAMPLE, option, value)
    assert f"'{value}' is not a " in str(refused.value)
    assert "invalid" not in str(refused.value)
