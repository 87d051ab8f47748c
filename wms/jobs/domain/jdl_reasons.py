"""Reasons for which attributes of JDL are ignored or refused, and the fields to use instead of ``Requirements``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

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
