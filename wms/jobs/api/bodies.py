"""Documentation of request bodies that the domain parses: descriptions and submissions (wms.jobs.domain.request)."""

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from wms.accounts.domain import MAX_STALLED_S
from wms.jobs.domain.canaries import EACH_SITE, MAX_CANARIES
from wms.jobs.domain.description import MAX_CPU_TIME_S, MAX_PRIORITY
from wms.jobs.domain.description_checks import (
    DATA_POLICIES,
    MAX_ARGUMENTS_BYTES,
    MAX_OUTPUT_PATH,
    MAX_PATH,
    MIN_STALLED_CPU_FRACTION,
)
from wms.jobs.domain.fields import MAX_NAME
from wms.jobs.domain.parsing_budget import MAX_JOBS
from wms.wire.amounts import AMOUNTS


def _names(help_text: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(max_length=MAX_NAME), required=False, help_text=help_text)


def _text(help_text: str, *, most: int = MAX_NAME) -> serializers.CharField:
    return serializers.CharField(required=False, allow_blank=True, max_length=most, help_text=help_text)


class EditBody(serializers.Serializer[object]):
    """Fields that can be changed while a job is Waiting or Held."""

    priority = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_PRIORITY,
        help_text="User priority, 0 to 10: chance relative to other jobs of the same owner.",
    )
    sites = _names("Sites where it may run; empty: any.")
    banned_sites = _names("Sites where it must not run.")
    job_name = _text("Name of the job.")


class DescriptionBody(EditBody):
    """One job, or many with `parameters`."""

    executable = serializers.CharField(
        required=False,
        max_length=MAX_PATH,
        help_text="Program that the job runs: a path or command on the node, or the name of a file of its directory.",
    )
    arguments = _text("Arguments as the shell reads them, or as a list of words.", most=MAX_ARGUMENTS_BYTES)
    job_group = _text("Free label of the owner.")
    job_type = _text("Type of the job, by which queues and limits select; default User.")
    cpu_time_s = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_CPU_TIME_S,
        help_text="CPU time, in reference-core seconds per core; default 86400.",
    )
    grid_ces = _names("Computing elements where it may run; empty: any.")
    platforms = _names("Platforms on which it runs; empty: any.")
    pilot_types = _names("Types of pilots that may run it: private, generic; empty: both.")
    submit_pools = _names("Submit pools whose queues may run it; not together with requirements.")
    grid_middlewares = _names(
        "Grid middleware of the computing elements to which pilots for it are sent; not compared in a match."
    )
    setup = serializers.CharField(
        required=False, allow_null=True, max_length=MAX_NAME, help_text="Setup, one of the VO's; null: the VO's own."
    )
    tags = _names("Tags that the queue must offer.")
    stalled_s = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=MAX_STALLED_S,
        help_text="Seconds with hardly any CPU time after which it is stopped, at least 60; 0: never, if the VO allows "
        "it; null: that of the queue or VO.",
    )
    stalled_cpu_fraction = serializers.FloatField(
        required=False,
        allow_null=True,
        min_value=MIN_STALLED_CPU_FRACTION,
        max_value=1.0,
        help_text="CPU time per wall-clock time, as a part of one core, that counts as hardly any; null: that "
        "of the queue or VO.",
    )
    container = _text(
        "Container image in which it runs: docker://…, oras://…, library://…, https://…, "
        "/cvmfs/…/image.sif, or a file of its directory; empty: none.",
        most=MAX_PATH,
    )
    requirements = serializers.DictField(
        required=False, help_text='Required parameters of resources, such as {"Memory": 4000} (RFC7).'
    )
    software = _names(
        "Paths or commands that must exist on the node. Names that a queue publishes, by its tags or "
        "the parameter SoftwareTag, are compared before a match: such a job runs only in queues that "
        "publish all of them."
    )
    input_sandbox = _names("Input sandboxes, as sha256:…, and files of the catalogue to fetch, as LFN:/vo/….")
    input_data = _names("Logical names of its input files; it runs only at sites that hold all of them.")
    output_sandbox = _names("Names or patterns of the files of its output sandbox.")
    output_data = _names(
        "Output files to store and register: names or patterns, or LFN:/vo/… of a file with the same last part; "
        "the job fails if one of them matches no file."
    )
    input_data_policy = serializers.ChoiceField(
        choices=DATA_POLICIES,
        required=False,
        help_text="Access to input data. download: into the job's directory; in_place: read where it is stored.",
    )
    output_se = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=MAX_NAME,
        help_text="Storage element for output_data (default: that of the site), and for an output sandbox "
        "above the limit.",
    )
    output_path = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=MAX_OUTPUT_PATH,
        help_text="Logical directory of output_data; a relative one is below the owner's home directory; default: "
        "/VO/user/initial/user/job id.",
    )
    overwrite = serializers.BooleanField(
        required=False, help_text="Whether output_data may replace registered files of the owner; default false."
    )
    std_output = _text("File for standard output; default std.out.")
    std_error = _text("File for standard error; default std.err.")
    environment = serializers.DictField(
        child=serializers.CharField(allow_blank=True), required=False, help_text="Environment variables of the payload."
    )
    parameters = serializers.DictField(
        required=False,
        help_text='Values of a parametric job: {"values": […]}, or {"count", "start", "step", "factor"}, or '
        'several of these by name, of which "" is that of %s; a value may be a list of texts.',
    )
    files = serializers.DictField(
        child=serializers.CharField(),
        required=False,
        help_text="{name: sha256:…} of uploaded files whose names in the input sandbox contain placeholders, beside "
        "the fields, jdl or cfg; the names are those in the jobs.",
    )
    jdl = serializers.CharField(
        required=False,
        help_text="Description as JDL text, in place of the fields. As in DIRAC, one string may hold several "
        'names of sites, CEs, platforms or tags, separated by commas without spaces: Site = "A, B" '
        'or { "A", "B" }.',
    )
    cfg = serializers.CharField(
        required=False,
        help_text="Description in the syntax of DIRAC's CFG files, with the names of JDL: lines `Name = "
        "value`, lists with commas, `Requirements { Memory = 4000 }`, comments after `#`; in double "
        'quotes any text, `""` for a `"`.',
    )

    def get_fields(self) -> dict[str, serializers.Field[object, object, object, object]]:
        """Return the fields with the amounts."""
        amounts = {
            amount.name: serializers.IntegerField(
                required=False, min_value=amount.least, max_value=amount.most, help_text=amount.help_of_job
            )
            for amount in AMOUNTS
        }
        return {**super().get_fields(), **amounts}


@extend_schema_field(
    {
        "oneOf": [
            {"type": "integer", "minimum": 0, "maximum": MAX_CANARIES},
            {"type": "string", "enum": [EACH_SITE]},
        ]
    }
)
class CanaryField(serializers.JSONField):
    """A number of jobs, or the word for one at each site."""


class SubmissionBody(DescriptionBody):
    """Fields of one description, or `jdl`, or `cfg`, or `jobs`; beside these `group`, `request_id` and others."""

    jobs = DescriptionBody(
        many=True, required=False, help_text=f"List of 1 to {MAX_JOBS} descriptions, in place of one."
    )
    group = serializers.CharField(
        required=False,
        allow_null=True,
        help_text="Group in which the user acts; default: the user's default or only group.",
    )
    request_id = serializers.UUIDField(
        required=False, allow_null=True, help_text="Idempotency key: a repeated request returns the first response."
    )
    strict = serializers.BooleanField(
        required=False,
        help_text="Whether jobs that surely fail when they start, such as those whose program no file brings, are "
        "refused as `surely_fails`, instead of warned of; default false.",
    )
    canary = CanaryField(
        required=False,
        allow_null=True,
        help_text="So many jobs, the first ones, wait at once, and the others are Held until these are Done; `sites`: "
        "one job for each site that the jobs fit, which runs only there; default 0: all wait at once.",
    )
