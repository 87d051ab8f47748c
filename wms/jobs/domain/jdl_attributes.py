"""The attributes of JDL and CFG: each is read as a field, ignored with a warning, or refused.

``SECTIONS`` is the only list of them. The parsers, their warnings and errors, the words that the portal's editor
completes, and the tables of docs/jdl.md are made from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from wms.wire.amounts import AMOUNTS

# Attributes with one reason share a warning, so each continues "… is ignored: " and "… are ignored: ".
OWNER: Final = "the owner of a job is the user who submits it."
VO_OF_GROUP: Final = "the VO is that of the group to act in (OwnerGroup)."
NO_LOG_LEVEL: Final = "the pilot's log does not depend on the job."
SOFTWARE_IS_THERE: Final = "nothing is installed for a job; name in Software what the node must have."
DATA_OF_OTHERS: Final = "the pilot knows how to bring files; InputDataPolicy and OutputSE are what can be chosen."
STATED_BY_DIRAC: Final = "DIRAC adds such attributes to stored jobs; a new job needs none."
WORKFLOW: Final = "only DIRAC's workflow modules read such attributes."
PRODUCTION: Final = (
    "only DIRAC's productions read such attributes; hand over to the program by Arguments or Environment what it needs."
)
RETRIES: Final = "how often a job starts again after a failure of its node is a rule of the server."
INFORMATION_SYSTEM: Final = "sites are not ranked by a job; state what it requires."
# Each continues "… is not accepted: ".
NODE_SCRIPTS: Final = "let the executable be a script that also runs what belongs before and after."
SANDBOX_SERVERS: Final = "files go through the server: write names in InputSandbox and OutputSandbox, or OutputData."

#: {name in an expression: attribute that requires the same}.
IN_EXPRESSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Site": "Site",
        "GridCE": "GridCE",
        "Platform": "Platform",
        "CPUTime": "CPUTime",
        "Memory": "Memory",
        "Tag": "Tags",
        "SoftwareTag": "Software",
        "GlueSiteUniqueID": "Site",
        "GlueSiteName": "Site",
        "GlueCESEBindGroupSEUniqueID": "InputData",
        "GlueCEUniqueID": "GridCE",
        "GlueCEInfoHostName": "GridCE",
        "GlueCEInfoTotalCPUs": "NumberOfProcessors",
        "GlueHostArchitectureSMPSize": "NumberOfProcessors",
        "GlueCEPolicyMaxCPUTime": "CPUTime",
        "GlueCEPolicyMaxObtainableCPUTime": "CPUTime",
        "GlueCEPolicyMaxWallClockTime": "WallTime",
        "GlueCEPolicyMaxObtainableWallClockTime": "WallTime",
        "GlueHostMainMemoryRAMSize": "Memory",
        "GlueHostMainMemoryVirtualSize": "Memory",
        "GlueHostOperatingSystemName": "Platform",
        "GlueHostOperatingSystemRelease": "Platform",
        "GlueHostOperatingSystemVersion": "Platform",
        "GlueHostArchitecturePlatformType": "Platform",
        "GlueHostApplicationSoftwareRunTimeEnvironment": "Software",
    }
)


class Kind(Enum):
    """The form of an attribute's value, or why it has none."""

    TEXT = auto()
    NUMBER = auto()
    #: A number that may have decimals.
    FRACTION = auto()
    #: A single value is a list of one.
    LIST = auto()
    #: A part of a sequence of parameters; a dot and the name of the sequence may follow.
    SEQUENCE = auto()
    #: Of a form of its own.
    OWN = auto()
    IGNORED = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class JdlAttribute:
    """One attribute and its treatment."""

    #: As DIRAC spells it; letter case is ignored.
    name: str
    kind: Kind
    #: What it means; of one that is ignored or refused, why, or what to write instead.
    sentence: str
    #: Of the description; of a part of a sequence, the name of the part. Empty: none.
    field: str = ""
    #: Attributes in whose presence this one is ignored.
    yields_to: tuple[str, ...] = ()
    #: Warning whenever it is read, without the name of the attribute at its beginning; empty: none.
    doubt: str = ""
    #: Whether it is a text or a list of texts, which need no quotes.
    has_texts: bool = False


def _text(name: str, field: str, sentence: str) -> JdlAttribute:
    return JdlAttribute(name=name, kind=Kind.TEXT, field=field, sentence=sentence, has_texts=True)


def _number(name: str, field: str, sentence: str, *, yields_to: tuple[str, ...] = (), doubt: str = "") -> JdlAttribute:
    return JdlAttribute(name=name, kind=Kind.NUMBER, field=field, sentence=sentence, yields_to=yields_to, doubt=doubt)


def _list(name: str, field: str, sentence: str) -> JdlAttribute:
    return JdlAttribute(name=name, kind=Kind.LIST, field=field, sentence=sentence, has_texts=True)


def _same(names: str, of: JdlAttribute) -> list[JdlAttribute]:
    return [replace(of, name=name, sentence=f"The same as `{of.name}`.") for name in names.split()]


def _amounts() -> list[JdlAttribute]:
    attributes: list[JdlAttribute] = []
    for amount in AMOUNTS:
        first, *others = amount.jdl
        attributes.append(_number(first, amount.name, amount.help_of_job))
        attributes += _same(" ".join(others), attributes[-1])
    return attributes


def _own(name: str, field: str, sentence: str, *, has_texts: bool = False) -> JdlAttribute:
    return JdlAttribute(name=name, kind=Kind.OWN, field=field, sentence=sentence, has_texts=has_texts)


def _sequence(name: str, part: str, sentence: str) -> JdlAttribute:
    return JdlAttribute(name=name, kind=Kind.SEQUENCE, field=part, sentence=sentence)


def _ignored(names: str, reason: str) -> list[JdlAttribute]:
    return [JdlAttribute(name=name, kind=Kind.IGNORED, sentence=reason, has_texts=True) for name in names.split()]


def _refused(names: str, remedy: str) -> list[JdlAttribute]:
    return [JdlAttribute(name=name, kind=Kind.REFUSED, sentence=remedy, has_texts=True) for name in names.split()]


_EXECUTABLE: Final = _text(
    "Executable", "executable", "A path or command on the node, or the name of a file of the job's directory."
)
_SETUP: Final = _text("Setup", "setup", "One of the VO's setups; by default the VO's own.")
_ENVIRONMENT: Final = _own(
    "Environment",
    "environment",
    'Variables of the payload: `{ "A=1", "B=2" }` or `[ A = "1"; B = "2" ]`.',
    has_texts=True,
)
_CPU_TIME: Final = _number(
    "CPUTime", "cpu_time_s", "Seconds of a reference core, for each core; a number in quotes is read as well."
)
_SITE: Final = _list("Site", "sites", 'Sites where the job may run; `"ANY"` is no restriction.')
_BANNED_SITES: Final = _list("BannedSites", "banned_sites", "Sites where the job must not run.")
_GRID_CE: Final = _list("GridCE", "grid_ces", 'Computing elements where the job may run; `"ANY"` is no restriction.')
_PLATFORM: Final = _list("Platform", "platforms", 'Platforms of which a node runs one; `"ANY"` is no restriction.')
_PILOT_TYPES: Final = _list("PilotTypes", "pilot_types", "`private` or `generic` pilots.")
_SUBMIT_POOLS: Final = _list(
    "SubmitPools",
    "submit_pools",
    'Ids of submit pools; `"ANY"` is no restriction. Not together with `Requirements`.',
)
_MIDDLEWARES: Final = _list("GridMiddlewares", "grid_middlewares", "Directors send pilots for the job only to these.")
_TAGS: Final = _list(
    "Tags",
    "tags",
    "Tags that the queue must offer. A warning says that `4Processors`, `8GB` and the like are compared as names: "
    "they are no amounts.",
)
_SOFTWARE: Final = _list("Software", "software", "Software that queues publish, or paths that the node must have.")
_PRIORITY: Final = _number("Priority", "priority", "0 to 10, relative to the owner's other jobs.")
_OUTPUT_DATA: Final = _list(
    "OutputData", "output_data", "Files to store and register: names, patterns, or `LFN:/vo/…` with the whole name."
)
_OUTPUT_SE: Final = _text(
    "OutputSE", "output_se", "A storage element; of a list the first is used, the others are ignored with a warning."
)
_OUTPUT_PATH: Final = _text(
    "OutputPath",
    "output_path",
    "A logical directory. A relative path is below the owner's home directory, as in DIRAC; an absolute one is "
    "not, and without `LFN:` a warning says so.",
)
_PROCESSORS: Final = ("NumberOfProcessors", "Processors")
_MEMORY: Final = ("Memory", "MemoryMB")
_ALSO_A_LIMIT: Final = "is read as Memory, which is also the limit above which the job is stopped."

#: {heading: attributes}; of several with one field, the first is the one that is written.
SECTIONS: Final[Mapping[str, Sequence[JdlAttribute]]] = MappingProxyType(
    {
        "The program": (
            _EXECUTABLE,
            _own(
                "Arguments",
                "arguments",
                "A text that is split as the shell does, or a list of words.",
                has_texts=True,
            ),
            _text("JobName", "job_name", "A free name."),
            _text("JobGroup", "job_group", "A free label, by which jobs are found."),
            _text("JobType", "job_type", 'The type by which queues and limits select; by default "User".'),
            _SETUP,
            *_same("DIRACSetup", _SETUP),
            _text("StdOutput", "std_output", "The file for standard output."),
            _text("StdError", "std_error", "The file for standard error."),
            _text("Container", "container", "The image in which the job runs."),
            _ENVIRONMENT,
            _own(
                "ExecutionEnvironment",
                "environment",
                "The same as `Environment`, with values that are percent-encoded, as DIRAC writes them.",
                has_texts=True,
            ),
            _SOFTWARE,
            *_same("SoftwareTag", _SOFTWARE),
            *_refused("StdInput", "the program gets no standard input: give the file in InputSandbox, and open it."),
            *_refused("Prologue PrologueArguments Epilogue EpilogueArguments", NODE_SCRIPTS),
            *_ignored("SoftwarePackages SoftwareDistModule", SOFTWARE_IS_THERE),
            *_ignored("LogLevel", NO_LOG_LEVEL),
            *_ignored("Flavor Flavour", "the program itself starts MPI, if it needs it."),
        ),
        "What it requires": (
            _CPU_TIME,
            *_same("MaxCPUTime", _CPU_TIME),
            *_amounts(),
            _number(
                "MinNumberOfProcessors",
                "processors",
                "The number of processors, unless `NumberOfProcessors` is given.",
                yields_to=_PROCESSORS,
            ),
            _own("MaxNumberOfProcessors", "", "Ignored with a warning, unless it equals the number that the job gets."),
            _number(
                "CPUNumber",
                "processors",
                "The number of processors in gLite, unless one of the above is given.",
                yields_to=(*_PROCESSORS, "MinNumberOfProcessors"),
            ),
            _own("WholeNode", "", "The tag `WholeNode`, which the queue must offer, as in DIRAC; with a warning."),
            _own("WholeNodes", "", "The same as `WholeNode`."),
            _number(
                "MaxRAM",
                "memory_mb",
                "Megabytes of memory, unless `Memory` is given; with a warning.",
                yields_to=_MEMORY,
                doubt=_ALSO_A_LIMIT,
            ),
            _number(
                "MinRAM",
                "memory_mb",
                "Megabytes of memory, unless `Memory` or `MaxRAM` is given; with a warning.",
                yields_to=(*_MEMORY, "MaxRAM"),
                doubt=_ALSO_A_LIMIT,
            ),
            _SITE,
            *_same("Sites Destination DestinationSite", _SITE),
            _BANNED_SITES,
            *_same("BannedSite", _BANNED_SITES),
            _GRID_CE,
            *_same("GridCEs GridRequiredCEs DestinationCE", _GRID_CE),
            _PLATFORM,
            *_same("Platforms", _PLATFORM),
            JdlAttribute(
                name="SystemConfig",
                kind=Kind.LIST,
                field="platforms",
                sentence="Platforms, unless `Platform` is given; with a warning.",
                has_texts=True,
                yields_to=("Platform", "Platforms"),
                doubt="is read as Platform: the job runs only where this platform is offered.",
            ),
            _TAGS,
            *_same("Tag", _TAGS),
            _PILOT_TYPES,
            *_same("PilotType", _PILOT_TYPES),
            _SUBMIT_POOLS,
            *_same("SubmitPool", _SUBMIT_POOLS),
            _MIDDLEWARES,
            *_same("GridMiddleware", _MIDDLEWARES),
            _own("Requirements", "requirements", "A record of constants; expressions are refused, see below."),
            _PRIORITY,
            *_same("UserPriority", _PRIORITY),
            _number("StalledTime", "stalled_s", "Seconds with hardly any CPU time after which the job is stopped."),
            JdlAttribute(
                name="StalledCPUFraction",
                kind=Kind.FRACTION,
                field="stalled_cpu_fraction",
                sentence="The part of one core that counts as hardly any CPU time.",
            ),
            _own("SMPGranularity", "", "Accepted if it equals the number of processors, which are all on one node."),
            _own("HostNumber", "", "Accepted if it is 1: a job runs on one node."),
            _own("NodeNumber", "", "The same as `HostNumber`."),
            *_refused("QueueName BatchSystem CERequirements", "write GridCE for the computing element."),
            *_ignored("Rank DefaultRank FuzzyRank SignificantAttributes ShortDeadlineJob", INFORMATION_SYSTEM),
        ),
        "Its files": (
            _list(
                "InputSandbox",
                "input_sandbox",
                "Files for the job's directory, see above. `LFN:…` is fetched from any site that holds it, and does "
                "not choose the job's site; an archive is unpacked. `SB:…` is refused.",
            ),
            _list("OutputSandbox", "output_sandbox", "Names or patterns of the files to bring back."),
            _list("InputData", "input_data", "Logical names, with or without `LFN:`."),
            _text(
                "InputDataPolicy",
                "input_data_policy",
                "`download` or `in_place`. DIRAC's `DownloadInputData` and `InputDataByProtocol`, with their module or "
                "as `Download` and `Protocol`, are read as these.",
            ),
            _own(
                "DisableDataScheduling",
                "",
                "If true, the files of `InputData` are read as `LFN:…` in `InputSandbox`, with a warning.",
            ),
            _OUTPUT_DATA,
            *_same("UserOutputData", _OUTPUT_DATA),
            _OUTPUT_SE,
            *_same("UserOutputSE", _OUTPUT_SE),
            _OUTPUT_PATH,
            *_same("UserOutputPath", _OUTPUT_PATH),
            _own("Overwrite", "overwrite", "`true`: output data may replace files that are registered and are yours."),
            *_ignored(
                "InputDataModule OutputDataModule DataAccessProtocol StorageIndex DataCatalog AllowZippedISB ZippedISB",
                DATA_OF_OTHERS,
            ),
            *_refused(
                "InputSandboxBaseURI InputSandboxDestFileName OutputSandboxBaseDestURI OutputSandboxDestURI "
                "OutputSandboxDestFileName",
                SANDBOX_SERVERS,
            ),
            *_refused("DataRequirements", "write the logical names in InputData."),
            *_refused("AncestorDepth", "ancestors are not looked up: write their logical names in InputData."),
        ),
        "Many jobs": (
            _sequence(
                "Parameters",
                "",
                "The number of jobs, or the list of their values, which may be lists. `Parameters.x` names it; several "
                "may stand beside each other.",
            ),
            _sequence("ParameterStart", "start", "The first value, by default 0 here and 1 in DIRAC."),
            _sequence(
                "ParameterStep",
                "step",
                "What is added for each next value: by default 1 here and 0 in DIRAC. A warning says so if only others "
                "of these three are given.",
            ),
            _sequence("ParameterFactor", "factor", "What the value is multiplied by before that, by default 1."),
            *_refused(
                "ParametricInputData ParametricInputSandbox ParametricParameters",
                "write Parameters = { … }, and %s where its value belongs.",
            ),
            _own(
                "Type",
                "",
                'Ignored if it is "Job"; all else is refused: write Parameters, or submit a list of jobs.',
                has_texts=True,
            ),
            *_refused(
                "Nodes NodeName Dependencies",
                "jobs that depend on each other are not known: submit each when those before it are done.",
            ),
        ),
        "Who": (
            _own("OwnerGroup", "", "The group to act in, `group` in a request.", has_texts=True),
            *_ignored("Owner OwnerName OwnerDN CertificateSubject Username", OWNER),
            *_ignored("VirtualOrganization VirtualOrganisation VO", VO_OF_GROUP),
            *_ignored(
                "MyProxyServer ProxyLifetime HLRLocation LBAddress", "jobs need no proxy and no service of the grid."
            ),
        ),
        "What DIRAC and others add": (
            *_ignored(
                "JobID MasterJobID JobRequirements JobPath JobSplittingAlgorithm DebugLFNs Parameter ParameterNumber",
                STATED_BY_DIRAC,
            ),
            *_ignored("ConfigArgs JobConfigArgs GangaVersion Origin", WORKFLOW),
            *_ignored(
                "JOB_ID ProductionID PRODUCTION_ID TransformationID TaskID RunNumber RunMetadata TargetSE "
                "ProductionOutputData LogFilePath LogTargetPath",
                PRODUCTION,
            ),
            *_ignored("RetryCount ShallowRetryCount DefaultNodeRetryCount DefaultNodeShallowRetryCount", RETRIES),
            *_ignored("ExpiryTime", "a job waits until it runs or is killed."),
            *_ignored(
                "PerusalFileEnable PerusalTimeInterval",
                "the last lines of standard output and error of a running job can always be seen.",
            ),
            *_ignored("UserTags JobProvenance", "write JobName and JobGroup, by which jobs are found."),
        ),
    }
)

ALL: Final = tuple([attribute for section in SECTIONS.values() for attribute in section])
#: {name in lower case: attribute}.
BY_NAME: Final[Mapping[str, JdlAttribute]] = MappingProxyType({attribute.name.lower(): attribute for attribute in ALL})
