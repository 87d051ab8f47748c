"""The form, JDL and JSON as views of one description; files, checks, copies and saved descriptions."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from matching.services import rehearsal
from resources.domain.enums import ResourceState
from tests.factories import NOW, make_ce, make_group, make_job, make_queue, make_site, make_user, submit
from tests.portal.conftest import ClientOf
from tests.portal.test_submit import JDL, errors_of, form, of_jdl
from tests.tables import checksums
from wms.accounts.models import Group, User
from wms.jobs.domain.description import parse
from wms.jobs.domain.jdl import parse_jdl
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, Sandbox, SavedDescription, SavedSyntax
from wms.kernel.time_texts import duration

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sandboxes_apart")]

FORM, TEXT, OBJECT, CHECK = "/jobs/submit/", "/jobs/submit/jdl/", "/jobs/submit/json/", "/jobs/submit/check/"


def of_json(text: str, **others: Any) -> dict[str, Any]:
    return {"json": text, "request_id": str(uuid4()), "group": "lhcb_user", **others}


def value(response: Any, field: str) -> Any:
    return response.context["form"][field].value()


# ---- units and choices -----------------------------------------------------------------------------------------------


def test_the_form_starts_with_the_cpu_time_of_a_description_without_one(portal: Client) -> None:
    assert value(portal.get(FORM), "cpu_time_s") == duration(parse({"executable": "a"}).cpu_time_s)


def test_names_that_the_vo_configures_are_offered(portal: Client) -> None:
    make_queue(tags=["gpu"], platforms=["x86_64-el9"], parameters={"SoftwareTag": ["Gauss-v56"]})
    page = portal.get(FORM).content.decode()
    for name in ("LCG.CERN.ch", "gpu", "x86_64-el9", "Gauss-v56"):
        assert f'<option value="{name}">' in page


def test_the_page_needs_a_constant_number_of_queries(portal: Client, alice: User) -> None:
    def ask() -> int:
        with CaptureQueriesContext(connection) as queries:
            portal.get(FORM)
        return len(queries)

    portal.get(FORM)
    save_directly(alice, name="first")
    few = ask()
    for number in range(30):
        save_directly(alice, name=f"scan {number}")
    assert ask() == few


# ---- conversion ------------------------------------------------------------------------------------------------------


def test_the_form_is_shown_as_jdl_and_json_and_back(portal: Client) -> None:
    fields = form(
        executable="./run.sh", arguments="--seed %s", sites="LCG.CERN.ch, LCG.PIC.es", memory_mb="2 GB",
        values="1\n2", output_sandbox="*.root", others='{"environment": {"RUN": "7"}}',
    )  # fmt: skip
    shown = portal.post(FORM, {**fields, "action": "show-jdl"})
    text = value(shown, "jdl")
    assert value(shown, "group") == "lhcb_user"
    assert parse_jdl(text).description == {
        "executable": "./run.sh", "arguments": "--seed %s", "cpu_time_s": 500, "memory_mb": 2000,
        "sites": ["LCG.CERN.ch", "LCG.PIC.es"], "output_sandbox": ["*.root"], "environment": {"RUN": "7"},
        "parameters": {"values": ["1", "2"]},
    }  # fmt: skip
    shown = portal.post(TEXT, of_jdl(text, action="show-json"))
    assert json.loads(value(shown, "json")) == parse_jdl(text).description
    back = portal.post(OBJECT, of_json(value(shown, "json"), action="show-form"))
    for name, expected in (
        ("executable", "./run.sh"), ("cpu_time_s", "500 s"), ("memory_mb", "2 GB"), ("values", "1\n2"),
        ("sites", "LCG.CERN.ch, LCG.PIC.es"), ("arguments", "--seed %s"), ("output_sandbox", "*.root"),
    ):  # fmt: skip
        assert value(back, name) == expected
    assert json.loads(value(back, "others")) == {"environment": {"RUN": "7"}}
    assert not Job.objects.exists()


def test_a_half_finished_description_can_be_shown_in_another_view(portal: Client) -> None:
    shown = portal.post(FORM, form(executable="", action="show-json"))
    assert json.loads(value(shown, "json")) == {"arguments": "hello", "cpu_time_s": 500}
    shown = portal.post(TEXT, of_jdl("", action="show-form"))
    assert shown.status_code == 200
    assert value(shown, "executable") in {None, ""}


@pytest.mark.parametrize(
    ("address", "fields", "field", "sentence"),
    [
        (TEXT, of_jdl('[ Executble = "x"; ]'), "jdl", "Line 1, column 3: There is no attribute `Executble`"),
        (TEXT, of_jdl("Executable = a\nCPUTme = 5", syntax="cfg"), "jdl", "Line 2, column 1"),
        (OBJECT, of_json('{\n "executable": }'), "json", "Line 2, column 16"),
        (OBJECT, of_json("[1]"), "json", "write an object"),
        (OBJECT, of_json('{"executable": "x",\n "cpu_time": 5}'), "__all__", "Line 2, column 2: There is no field"),
        (OBJECT, of_json('{"executable": "x",\n "cpu_tme_s": 5}'), "__all__", 'Did you mean "cpu_time_s"?'),
        (OBJECT, of_json('{"jobs": [{"executable": "x"}]}'), "__all__", "has only this view"),
        (TEXT, of_jdl('[ Executable = "x"; CPUTime = -1; ]'), "__all__", "cpu_time_s must be"),
        (TEXT, of_jdl('[ Executable = "x"; InputSandbox = "run.sh"; ]'), "input_files", 'No file "run.sh" goes along'),
    ],
)  # fmt: skip
def test_a_wrong_text_stays_with_its_error(
    address: str, fields: dict[str, Any], field: str, sentence: str, portal: Client
) -> None:
    response = portal.post(address, {**fields, "action": "show-form"})
    assert sentence in " ".join(errors_of(response)[field])
    text = "json" if "json" in fields else "jdl"
    assert value(response, text) == fields[text]
    assert "Nothing was submitted." in response.content.decode()


def test_a_description_beyond_jdl_stays_in_its_view(portal: Client) -> None:
    text = '{"executable": "x", "requirements": {"two words": 1}}'
    response = portal.post(OBJECT, of_json(text, action="show-jdl"))
    assert "JDL cannot express this description" in errors_of(response)["__all__"][0]


def test_json_submits_one_job_or_a_list(portal: Client) -> None:
    assert portal.post(OBJECT, of_json('{"executable": "/bin/echo"}')).status_code == 302
    assert portal.post(OBJECT, of_json('{"jobs": [{"executable": "a"}, {"executable": "b"}]}')).status_code == 302
    assert Job.objects.count() == 3


def test_yaml_in_the_place_of_json_submits_too(portal: Client) -> None:
    assert portal.post(OBJECT, of_json("executable: /bin/date\narguments: '-u'\n")).status_code == 302
    assert Job.objects.with_description().get().description["arguments"] == "-u"
    wrong = portal.post(OBJECT, of_json("executable: /bin/date\narguments: no\n"))
    assert errors_of(wrong)["json"][0].startswith('Line 2: put "no" in quotes if it is a text')


def test_the_same_json_sent_twice_submits_once(portal: Client) -> None:
    fields = of_json('{"executable": "/bin/echo"}')
    first, second = (portal.post(OBJECT, fields)["Location"] for _ in range(2))
    assert first == second
    assert Job.objects.count() == 1


def test_the_number_of_jobs_is_submitted(portal: Client) -> None:
    portal.post(FORM, form(count="3", arguments="%n"))
    assert Job.objects.count() == 3
    response = portal.post(FORM, form(count="3", values="a"))
    assert "Give either values or the number of jobs." in errors_of(response)["count"]


# ---- files -----------------------------------------------------------------------------------------------------------


def run_sh() -> SimpleUploadedFile:
    return SimpleUploadedFile("run.sh", b"#!/bin/sh\necho hi")


def kept_by(response: Any) -> list[str]:
    return [" ".join(file) for file in response.context["form"].kept_files]


def test_names_in_a_jdl_refer_to_the_files_of_the_form(portal: Client) -> None:
    text = '[ Executable = "./run.sh"; CPUTime = 500; InputSandbox = {"work/run.sh"}; ]'
    assert portal.post(TEXT, of_jdl(text, input_files=[run_sh()])).status_code == 302
    assert Job.objects.get().input_sandboxes.get().file_name == "run.sh"


def test_files_are_added_to_texts_that_do_not_name_them(portal: Client) -> None:
    files = [run_sh(), SimpleUploadedFile("data.txt", b"1")]
    text = '{"executable": "./run.sh", "input_sandbox": ["run.sh"]}'
    assert portal.post(OBJECT, of_json(text, input_files=files)).status_code == 302
    assert Job.objects.get().input_sandboxes.count() == 2


def test_jobs_of_a_list_take_the_files_that_they_name(portal: Client) -> None:
    text = '{"jobs": [{"executable": "./run.sh", "input_sandbox": ["run.sh"]}, {"executable": "/bin/echo"}]}'
    assert portal.post(OBJECT, of_json(text, input_files=[run_sh()])).status_code == 302
    assert [job.input_sandboxes.count() for job in Job.objects.order_by("pk")] == [1, 0]


@pytest.mark.parametrize("is_list", [False, True])
def test_names_that_parameters_make_refer_to_the_files_of_the_form(portal: Client, is_list: bool) -> None:
    files = [SimpleUploadedFile(f"run_{letter}.sh", f"#!/bin/{letter}sh".encode()) for letter in "ab"]
    job = '{"executable": "./run_%s.sh", "input_sandbox": ["run_%s.sh"], "parameters": {"values": ["a", "b"]}}'
    text = f'{{"jobs": [{job}]}}' if is_list else job
    assert portal.post(OBJECT, of_json(text, input_files=files)).status_code == 302
    names = [set(job.input_sandboxes.values_list("file_name", flat=True)) for job in Job.objects.order_by("pk")]
    assert ["run_a.sh" in names[0], "run_b.sh" in names[1]] == [True, True]
    assert [len(each) for each in names] == ([1, 1] if is_list else [2, 2])


def test_a_name_of_no_file_is_refused_with_the_nearest_one(portal: Client) -> None:
    text = '[ Executable = "./run.sh"; InputSandbox = {"rum.sh"}; ]'
    response = portal.post(TEXT, of_jdl(text, input_files=[run_sh()]))
    assert 'No file "rum.sh" goes along with this form. Did you mean "run.sh"?' in errors_of(response)["input_files"]
    assert not Job.objects.exists()


def test_files_are_kept_when_a_text_cannot_be_read(portal: Client) -> None:
    refused = portal.post(TEXT, of_jdl('[ Executable = "./run.sh" InputSandbox = "run.sh" ]', input_files=[run_sh()]))
    assert refused.status_code == 400
    assert "Files already uploaded" in refused.content.decode()
    text = '[ Executable = "./run.sh"; InputSandbox = "run.sh"; ]'
    portal.post(TEXT, of_jdl(text, kept=kept_by(refused)))
    assert Job.objects.get().input_sandboxes.get().file_name == "run.sh"


def test_files_go_with_the_description_into_other_views(portal: Client) -> None:
    shown = portal.post(FORM, form(executable="./run.sh", input_files=[run_sh()], action="show-jdl"))
    assert 'InputSandbox = { "run.sh" };' in value(shown, "jdl")
    back = portal.post(TEXT, of_jdl(value(shown, "jdl"), kept=kept_by(shown), action="show-form"))
    assert kept_by(back) == kept_by(shown)
    assert value(back, "others") == ""


def test_a_file_replaces_the_one_of_its_name(portal: Client) -> None:
    first = portal.post(FORM, form(executable="./run.sh", input_files=[run_sh()], action="check"))
    other = SimpleUploadedFile("run.sh", b"#!/bin/sh\necho bye")
    portal.post(FORM, form(executable="./run.sh", kept=kept_by(first), input_files=[other]))
    assert f"sha256:{Job.objects.get().input_sandboxes.get().sandbox.digest} run.sh" not in kept_by(first)


def test_a_removed_file_is_not_submitted(portal: Client) -> None:
    portal.post(FORM, form(executable="./run.sh", input_files=[run_sh()], action="check"))
    portal.post(FORM, form())
    assert not Job.objects.get().input_sandboxes.exists()


# ---- the check -------------------------------------------------------------------------------------------------------


def test_the_panel_says_how_many_queues_fit_and_what_excludes_the_others(portal: Client) -> None:
    make_queue(ce=make_ce(site=make_site(name="LCG.RAL.uk")))
    make_queue(ce=make_ce(site=make_site(name="LCG.CNAF.it")), cpu_time_s=5000)
    page = portal.post(CHECK, form(cpu_time_s="12 h")).content.decode()
    assert "Fits 1 of 2 queues, at LCG.RAL.uk." in page
    assert "CPU time excludes LCG.CNAF.it" in page


def test_the_panel_shows_how_many_jobs_a_text_makes(portal: Client) -> None:
    page = portal.post(CHECK, of_jdl(JDL.replace("3", "300"), tab="show-jdl")).content.decode()
    assert "300 jobs: first &quot;000&quot;, last &quot;299&quot;." in page


def test_the_panel_judges_each_kind_of_jobs(portal: Client) -> None:
    for name, memory_mb in (("LCG.RAL.uk", 2000), ("LCG.CNAF.it", 8000)):
        make_queue(ce=make_ce(site=make_site(name=name)), memory_mb=memory_mb)
    jobs = [{"executable": "/bin/echo", "cpu_time_s": 500, "memory_mb": 1000} for _ in range(300)]
    for number in (12, *range(17, 20), *range(100, 200, 10)):
        jobs[number]["memory_mb"] = 64_000
    jobs[40]["memory_mb"] = 4000
    page = portal.post(CHECK, of_json(json.dumps({"jobs": jobs}), tab="show-json")).content.decode()
    assert "Of the 300 jobs, 286 fit a queue and 14 fit no queue." in page
    assert "message warning" in page
    rows = (
        "14 jobs fit none of 2 queues</b>: 12, 17 to 19, 100, 110, 120 and 7 more",
        "285 jobs fit 2 of 2 queues, at",
        "1 job fits 1 of 2 queues, at LCG.CNAF.it</b>: 40",
    )
    assert [page.index(row) for row in rows] == sorted(page.index(row) for row in rows)
    assert "Memory excludes LCG.CNAF.it, LCG.RAL.uk" in page
    submitted = portal.post(OBJECT, of_json(json.dumps({"jobs": jobs})), follow=True).content.decode()
    assert "no pilot gets 14 of the 300 waiting jobs of this submission; the reasons follow." in submitted


def test_the_panel_says_how_many_jobs_it_did_not_compare(portal: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "MOST_COMPARED", 2)
    make_queue(ce=make_ce(site=make_site(name="LCG.RAL.uk")), memory_mb=8000, processors=8)
    jobs = [{"executable": "/bin/echo", "cpu_time_s": 500, "processors": number} for number in (1, 1, 2, 2, 3, 3, 4)]
    page = portal.post(CHECK, of_json(json.dumps({"jobs": jobs[:-2]}), tab="show-json")).content.decode()
    assert "Each of the 4 jobs compared fits a queue." in page
    assert "1 more kind of jobs, 1 job in all, not compared with the queues: only the largest kinds are." in page


def test_kinds_of_jobs_beyond_the_list_are_counted(portal: Client) -> None:
    make_queue(ce=make_ce(site=make_site(name="LCG.RAL.uk")), processors=64)
    jobs = [{"executable": "/bin/echo", "cpu_time_s": 500, "processors": number} for number in range(1, 15)]
    page = portal.post(CHECK, of_json(json.dumps({"jobs": jobs}), tab="show-json")).content.decode()
    assert "Each of the 14 jobs fits a queue." in page
    assert "4 more kinds of jobs, 4 jobs in all, all of which fit a queue, not listed." in page


def test_the_panel_shows_jobs_that_fit_only_banned_places(portal: Client) -> None:
    make_queue(ce=make_ce(site=make_site(name="LCG.RAL.uk", state=ResourceState.BANNED)))
    make_queue(ce=make_ce(site=make_site(name="LCG.CNAF.it")))
    jobs = [{"executable": "a", "cpu_time_s": 500, "sites": [name]} for name in ("LCG.RAL.uk", "LCG.CNAF.it")]
    page = portal.post(CHECK, of_json(json.dumps({"jobs": jobs}), tab="show-json")).content.decode()
    assert "Of the 2 jobs, 1 fits a queue and 1 fits only queues that accept no jobs at present." in page
    submitted = portal.post(OBJECT, of_json(json.dumps({"jobs": jobs})), follow=True).content.decode()
    assert "no pilot gets 1 of the 2 waiting jobs of this submission; the reasons follow." in submitted


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (form(executable=""), "Executable: This field is required."),
        (form(cpu_time_s="86400"), "86400 without a unit would be hours"),
        (form(sites="LCG.CERN.hc"), "Did you mean &quot;LCG.CERN.ch&quot;?"),
        (form(executable="./run.sh"), "neither the input sandbox nor the input data contains it"),
        (form(arguments="'open"), "A quote in arguments is not closed"),
        (of_jdl("[ Executable = ", tab="show-jdl"), "Line 1, column 16"),
        (of_json("{", tab="show-json"), "Line 1, column 2"),
        (form(tab="nonsense", group="atlas_user"), "Select a valid choice"),
    ],
)
def test_the_panel_says_what_is_wrong(fields: dict[str, Any], sentence: str, portal: Client) -> None:
    response = portal.post(CHECK, fields)
    assert response.status_code == 200
    assert sentence in response.content.decode()


def test_the_panel_takes_the_names_of_files_that_are_only_chosen(portal: Client) -> None:
    page = portal.post(CHECK, form(executable="./run.sh", coming=["run.sh"])).content.decode()
    assert "contains it" not in page
    text = of_jdl('[ Executable = "./run.sh"; InputSandbox = "run.sh"; ]', tab="show-jdl", coming=["run.sh"])
    assert "refused" not in portal.post(CHECK, text).content.decode()


def test_the_panel_warns_when_all_that_fits_is_banned(portal: Client) -> None:
    make_queue(ce=make_ce(site=make_site(state=ResourceState.BANNED)))
    page = portal.post(CHECK, form()).content.decode()
    assert "Fits 1 of 1 queue, but none of these accepts jobs at present." in page


def test_the_panel_stores_nothing(portal: Client) -> None:
    portal.post(CHECK, form())
    before = checksums()
    portal.post(CHECK, form(others='{"requirements": {"Memory": 4000}}', count="100"))
    assert checksums() == before


def test_the_panel_is_only_for_posts_of_the_page(client: Client, portal: Client) -> None:
    assert portal.get(CHECK).status_code == 405
    assert client.post(CHECK, form()).status_code == 302
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = portal.cookies
    assert strict.post(CHECK, form()).status_code == 403


def test_the_button_says_the_same_without_scripts_and_keeps_files(portal: Client) -> None:
    make_queue(ce=make_ce(site=make_site(name="LCG.RAL.uk")))
    response = portal.post(FORM, form(executable="./run.sh", input_files=[run_sh()], action="check"))
    page = response.content.decode()
    assert response.status_code == 200
    assert "Fits 1 of 1 queue, at LCG.RAL.uk." in page
    assert len(kept_by(response)) == 1
    assert not Job.objects.exists()


# ---- copies ----------------------------------------------------------------------------------------------------------


def test_a_copy_of_a_job_fills_the_form(portal: Client, alice: User, group: Group) -> None:
    job = make_job(
        owner=alice, group=group, executable="/bin/x", arguments="100%", cpu_time_s=3600, sites=["LCG.CERN.ch"],
        environment={"A": "1"}, job_name="scan", memory_mb=1500,
    )  # fmt: skip
    shown = portal.get(f"{FORM}?clone={job.pk}")
    for name, expected in (
        ("executable", "/bin/x"), ("arguments", "100%"), ("cpu_time_s", "1 h"), ("sites", "LCG.CERN.ch"),
        ("job_name", "scan"), ("memory_mb", "1.5 GB"), ("group", "lhcb_user"),
    ):  # fmt: skip
        assert value(shown, name) == expected
    assert json.loads(value(shown, "others")) == {"environment": {"A": "1"}}
    assert parse_jdl(value(portal.get(f"{TEXT}?clone={job.pk}"), "jdl")).description["job_name"] == "scan"


def test_a_copy_of_a_job_keeps_what_looks_like_a_placeholder(portal: Client, alice: User) -> None:
    body = {"executable": "x", "arguments": "%%j %%%j %s", "environment": {"A": "%%j"}}
    submit(parse_submission(body), owner=alice, now=NOW)
    job = Job.objects.with_description().get()
    assert job.description["arguments"] == "%j %%j %s"
    copied = parse_jdl(value(portal.get(f"{TEXT}?clone={job.pk}"), "jdl")).description
    assert copied["arguments"] == "%%j %%%j %s"
    assert copied["environment"] == {"A": "%%j"}


def test_a_copy_keeps_the_files_that_its_user_may_name(portal: Client, alice: User, client_of: ClientOf) -> None:
    portal.post(FORM, form(executable="./run.sh", input_files=[run_sh()]))
    job = Job.objects.get()
    shown = portal.get(f"{FORM}?clone={job.pk}")
    assert kept_by(shown) == [f"sha256:{Sandbox.objects.get().digest} run.sh"]
    assert value(shown, "others") == ""
    bob = client_of(make_user(operator=True, groups=[make_group(name="other")]))
    page = bob.get(f"{FORM}?clone={job.pk}")
    assert kept_by(page) == []
    assert "Choose these files again" in page.content.decode()


def test_a_copy_of_a_submission_is_one_of_its_first_job(portal: Client, alice: User) -> None:
    body = {"executable": "x", "arguments": "%n", "parameters": {"count": 3}}
    result = submit(parse_submission(body), owner=alice, now=NOW)
    shown = portal.get(f"{FORM}?clone={result.job_group_id}")
    assert value(shown, "arguments") == "0"
    assert "the first of its submission. Parameters are not stored" in shown.content.decode()


@pytest.mark.parametrize(
    "text", ["999999", "99999999999999999999999", "nonsense", "00000000-0000-4000-8000-000000000005"]
)
def test_a_missing_job_is_not_copied(text: str, portal: Client) -> None:
    assert portal.get(f"{FORM}?clone={text}").status_code == 404


def test_a_job_of_another_user_is_not_copied(portal: Client) -> None:
    job = make_job()
    assert portal.get(f"{FORM}?clone={job.pk}").status_code == 404
    assert portal.get(f"{FORM}?clone={job.submission_id}").status_code == 404


# ---- saved descriptions ----------------------------------------------------------------------------------------------


def save_directly(owner: User, *, name: str = "scan") -> SavedDescription:
    return SavedDescription.objects.create(owner=owner, name=name, syntax=SavedSyntax.JDL, text=JDL, saved_at=NOW)


def test_a_form_is_saved_with_its_files_and_loaded(portal: Client) -> None:
    fields = form(executable="./run.sh", memory_mb="2", input_files=[run_sh()], save_as="scan", action="save")
    shown = portal.post(FORM, fields, follow=True)
    assert "scan is saved." in shown.content.decode()
    assert value(shown, "executable") == "./run.sh"
    assert value(shown, "memory_mb") == "2 GB"
    assert value(shown, "group") == "lhcb_user"
    assert value(shown, "save_as") == "scan"
    assert [name.partition(" ")[2] for name in kept_by(shown)] == ["run.sh"]
    assert not Job.objects.exists()


def test_a_text_is_saved_as_it_was_written_even_if_it_is_wrong(portal: Client) -> None:
    text = "[ // a note\n Executable = "
    shown = portal.post(TEXT, of_jdl(text, save_as="half", action="save"), follow=True)
    assert value(shown, "jdl").replace("\r\n", "\n") == text
    pk = SavedDescription.objects.get().pk
    assert portal.get(f"{FORM}?saved={pk}")["Location"] == f"{TEXT}?saved={pk}"


def test_saving_under_the_same_name_replaces(portal: Client) -> None:
    portal.post(OBJECT, of_json("{}", save_as="scan", action="save"))
    shown = portal.post(OBJECT, of_json('{"executable": "x"}', save_as="scan", action="save"), follow=True)
    assert "in the place of the one before" in shown.content.decode()
    assert SavedDescription.objects.get().text == '{"executable": "x"}'


def test_a_name_is_needed(portal: Client) -> None:
    response = portal.post(FORM, form(action="save"))
    assert "Write the name" in errors_of(response)["save_as"][0]


def test_saved_descriptions_are_listed_and_deleted(portal: Client, alice: User) -> None:
    saved = save_directly(alice, name="my <b>scan</b>")
    save_directly(make_user(), name="of somebody else")
    page = portal.get(FORM).content.decode()
    assert "my &lt;b&gt;scan&lt;/b&gt;" in page
    assert "of somebody else" not in page
    portal.post(f"/jobs/submit/saved/{saved.pk}/delete/")
    assert not SavedDescription.objects.filter(owner=alice).exists()


def test_a_description_of_another_user_is_not_found(portal: Client) -> None:
    saved = save_directly(make_user())
    assert portal.get(f"{TEXT}?saved={saved.pk}").status_code == 404
    assert portal.post(f"/jobs/submit/saved/{saved.pk}/delete/").status_code == 404
    assert SavedDescription.objects.exists()
