"""A simulated slot offers what a pilot of the same configuration offers."""

from dataclasses import replace
from pathlib import Path

import pytest
from django.utils import timezone

from resources.models import Queue
from taskqueues.domain.definition import Rounding
from taskqueues.services.offers import offer_of_queue
from wms import demo
from wms.accounts.models import VO
from wms.configuration.configure import configure
from wms.demo.sample import new_passwords, variables
from wms.simulation.scenario import scenario_of
from wms.simulation.scenario_file import read_scenario

EXACTLY = Rounding(cpu_segments_s=(1,), steps={})
SAMPLE = Path(demo.__file__).with_name("sample.yaml")


@pytest.mark.django_db
def test_a_slot_offers_what_a_pilot_there_does(tmp_path: Path) -> None:
    more = "wall_time_s: 86400, gpus: 2, disk_mb: 5000, container: true"
    sample = SAMPLE.read_text().replace("name: short,", f"name: short, {more},")
    (tmp_path / "sample.yaml").write_text(sample)
    configure(sample.encode(), environ=variables(new_passwords()), now=timezone.now())
    (tmp_path / "scenario.yaml").write_text("configuration: sample.yaml\nload: []\n")
    entries, load = read_scenario(tmp_path / "scenario.yaml", environ={})
    scenario = scenario_of(entries, load, rounding=EXACTLY)
    vo = VO.objects.get()
    simulated = {
        (offer.site, offer.ce): replace(offer, vo_id=vo.pk)
        for slots in scenario.slots
        for offer in slots.offers.values()
    }
    # No submit pool exists: every task queue passes, as when pools are not compared.
    offered = {
        (queue.ce.site.name, queue.ce.name): replace(
            offer_of_queue(queue, vo=vo, now=timezone.now()), submit_pools=None
        )
        for queue in Queue.objects.select_related("ce__site")
    }
    assert len(offered) > 1
    assert {offer.gpus for offer in offered.values()} == {0, 2}
    assert simulated == offered


def test_a_simulated_load_has_the_requirements_of_its_jobs(tmp_path: Path) -> None:
    kind = "{user: alice, group: lhcb_user, waiting: 1, cpu_time_s: 900, run_time: {mean_s: 2000}%s}"
    more = ", wall_time_s: 700, gpus: 1, disk_mb: 20, container: docker://alpine"
    text = f"configuration: {SAMPLE}\nload:\n- {kind % ''}\n- {kind % more}\n"
    (tmp_path / "scenario.yaml").write_text(text)
    scenario = scenario_of(*read_scenario(tmp_path / "scenario.yaml", environ={}), rounding=EXACTLY)
    plain, rich = (work.definition for work in scenario.work)
    assert (plain.wall_time_s, plain.gpus, plain.disk_mb, plain.container) == (0, 0, 0, False)
    assert (rich.wall_time_s, rich.gpus, rich.disk_mb, rich.container) == (700, 1, 20, True)
    # The watchdog stops them.
    assert [work.run_time.most_s for work in scenario.work] == [900, 700]
