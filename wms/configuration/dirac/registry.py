"""The section Registry: VOs, groups with their shares, and users with the names of their certificates."""

import re
from dataclasses import dataclass, field, replace

from wms.accounts.domain import GroupProperty
from wms.configuration.dirac.cfg import CfgOption, CfgSection
from wms.configuration.dirac.report import Report, UniqueNames, chosen
from wms.configuration.schema import GroupEntry, UserEntry, VOEntry

#: DIRAC's share of a group that states none.
_DEFAULT_SHARE = 1000.0
_MOST_SHARE = 1e12
#: Setup of VOs where the files name none: DIRAC 9 has no setups.
_SETUP = "Production"
_LONGEST_SETUP = 64
_LONGEST_DN = 255

#: DIRAC's properties of groups that are ours, and how they differ.
_PROPERTIES = {
    "JobSharing": (GroupProperty.JOB_SHARING, ""),
    "ProductionManagement": (GroupProperty.PRODUCTION, "any number of jobs of one user may wait"),
    "ProductionSharing": (GroupProperty.PRODUCTION, "any number of jobs of one user may wait"),
}
_REASONS = {
    "NormalUser": "NormalUser is the rule here",
    **dict.fromkeys(
        ("Operator", "JobAdministrator", "ServiceAdministrator", "CSAdministrator"),
        "groups give no rights over other groups: state operator: true for the users who need it",
    ),
}
_OF_PILOTS = frozenset({"GenericPilot", "Pilot"})

_SHARE = re.compile(r"[0-9]{1,13}(?:\.[0-9]{0,9})?")
#: A DN may contain commas.
_BETWEEN_DNS = re.compile(r",\s*(?=/)")
_USERNAME = re.compile(r"[\w.@+-]+\Z")


@dataclass(slots=True, kw_only=True)
class Accounts:
    """VOs, groups and users, by name in the order of the file."""

    vos: dict[str, VOEntry] = field(default_factory=dict)
    groups: dict[str, GroupEntry] = field(default_factory=dict)
    users: dict[str, UserEntry] = field(default_factory=dict)
    #: Default setup of all VOs.
    setup: str = ""


def accounts_of(root: CfgSection, *, setup: str, default_vo: str, report: Report) -> Accounts:
    """Return the accounts.

    Args:
        setup: default setup of the VOs; empty: that of the file.
        default_vo: VO of groups that name none; empty: that of a file with a single VO.
    """
    reader = _Reader(root, report)
    reader.read_vos(setup=setup, default_vo=default_vo)
    for name, section in root.at("Registry", "Groups").sections.items():
        reader.read_group(name, section)
    for name, section in root.at("Registry", "Users").sections.items():
        reader.read_user(name, section)
    reader.read_managers()
    return reader.accounts


class _Reader:
    def __init__(self, root: CfgSection, report: Report) -> None:
        self.accounts = Accounts()
        self._registry = root.at("Registry")
        self._dirac = root.at("DIRAC")
        self._report = report
        self._vo_names = UniqueNames(longest=64)
        self._group_names = UniqueNames(longest=64)
        self._user_names = UniqueNames(
            longest=150, pattern=_USERNAME, allowed="a user name has letters, digits and . _ @ + - only"
        )
        self._default_vo = ""
        self._setups: tuple[str, ...] = ()
        #: The user of each DN.
        self._dns: dict[str, str] = {}
        #: Groups of each user.
        self._groups: dict[str, list[str]] = {}

    # ---- VOs -----------------------------------------------------------------------------------------------------

    def read_vos(self, *, setup: str, default_vo: str) -> None:
        self._read_setups(setup)
        for name, section in self._registry.at("VO").sections.items():
            if flaw := self._add_vo(name, where=section.where):
                self._report.refuse(section, flaw)
        own = self._dirac.options.get("VirtualOrganization")
        if own is not None and (flaw := self._add_vo(own.value, where=own.where)):
            own.leave(flaw)
        elif own is not None:
            own.take(f"vo {own.value}: name")
        if default_vo and (flaw := self._add_vo(default_vo, where="--vo")):
            self._report.notes.append(f"--vo is not used: {flaw}.")
        self._default_vo = default_vo or (own.value if own else "")

    def _read_setups(self, setup: str) -> None:
        own = self._dirac.options.get("Setup")
        is_usable = own is not None and 0 < len(own.value) <= _LONGEST_SETUP
        self.accounts.setup = setup or (own.value if own and is_usable else _SETUP)
        if own is not None and own.value == self.accounts.setup:
            own.take("vos: setup")
        elif own is not None:
            own.leave("--setup chooses another one" if setup else f"a setup has 1 to {_LONGEST_SETUP} characters")
        elif not setup:
            self._report.notes.append(f"No setup is stated: that of the VOs is {_SETUP} (see --setup).")
        setups = (name for name in self._dirac.at("Setups").sections if len(name) <= _LONGEST_SETUP)
        others = [name for name in setups if name != self.accounts.setup]
        self._setups = (self.accounts.setup, *others) if others else ()

    def _add_vo(self, name: str, *, where: str) -> str | None:
        """Add a VO unless it is there; return why it cannot be added."""
        if name in self.accounts.vos:
            return None
        flaw = self._vo_names.flaw(name, where=where)
        if flaw is None:
            self.accounts.vos[name] = VOEntry(name=name, setup=self.accounts.setup, setups=self._setups)
        return flaw

    def read_managers(self) -> None:
        for name, section in self._registry.at("VO").sections.items():
            admin = section.options.get("VOAdmin")
            managers = chosen(admin, self.accounts.users, what="a user")
            if name in self.accounts.vos and admin is not None and managers:
                admin.take(f"vo {name}: managers")
                self.accounts.vos[name] = replace(self.accounts.vos[name], managers=tuple(managers))

    # ---- Groups --------------------------------------------------------------------------------------------------

    def read_group(self, name: str, section: CfgSection) -> None:
        properties = section.options.get("Properties")
        stated = frozenset(properties.elements if properties else ())
        if stated & _OF_PILOTS and "NormalUser" not in stated:
            self._report.refuse(section, "pilots have tokens and are in no group")
            return
        if flaw := self._group_names.flaw(name, where=section.where):
            self._report.refuse(section, flaw)
            return
        vo = self._vo_of(name, section)
        if not vo:
            self._report.refuse(
                section, "it belongs to no VO that is taken; --vo names the VO of groups that name none"
            )
            return
        self.accounts.groups[name] = GroupEntry(
            name=name, vo=vo, priority=self._share(name, section), properties=self._properties(name, properties)
        )
        members = section.options.get("Users")
        users = chosen(members, self._registry.at("Users").sections, what="a user")
        if members is not None and users:
            members.take(f"users: groups ({name})")
        for user in users:
            self._groups.setdefault(user, []).append(name)

    def _vo_of(self, name: str, section: CfgSection) -> str:
        option = section.options.get("VO")
        vo = option.value if option else ""
        if not vo and (option := section.options.get("VOMSVO")) is not None:
            vo = self._vo_by_voms_name(option.value)
        if option is not None and vo:
            if self._add_vo(vo, where=option.where):
                return ""
            option.take(f"group {name}: vo")
            return vo
        return self._default_vo if self._default_vo in self.accounts.vos else ""

    def _vo_by_voms_name(self, name: str) -> str:
        for vo, section in self._registry.at("VO").sections.items():
            option = section.options.get("VOMSName")
            if vo == name or (option is not None and option.value == name):
                return vo
        return ""

    def _share(self, name: str, section: CfgSection) -> float:
        option = section.options.get("JobShare")
        if option is None:
            return _DEFAULT_SHARE
        share = float(option.value) if _SHARE.fullmatch(option.value) else -1.0
        if not 0 <= share <= _MOST_SHARE:
            option.change(
                f"group {name}: priority", f"not a number from 0 to 1e12: {_DEFAULT_SHARE:g}, DIRAC's default"
            )
            return _DEFAULT_SHARE
        option.take(f"group {name}: priority")
        return share

    def _properties(self, name: str, option: CfgOption | None) -> tuple[GroupProperty, ...]:
        if option is None:
            return ()
        properties: list[GroupProperty] = []
        for element in option.elements:
            ours, how = _PROPERTIES.get(element, (None, ""))
            if ours is None:
                option.leave(_REASONS.get(element, f"there is no property {element} here"))
                continue
            properties.append(ours)
            key = f"group {name}: properties ({ours})"
            if how:
                option.change(key, how)
            else:
                option.take(key)
        return tuple(dict.fromkeys(properties))

    # ---- Users ---------------------------------------------------------------------------------------------------

    def read_user(self, name: str, section: CfgSection) -> None:
        if flaw := self._user_names.flaw(name, where=section.where):
            self._report.refuse(section, flaw)
            return
        groups, suspended = self._active_groups(name, section.options.get("Suspended"))
        self.accounts.users[name] = UserEntry(
            username=name,
            dns=tuple(self._dns_of(name, section.options.get("DN"))),
            groups=groups,
            default_group=self._default_group(name, section, groups),
            suspended=suspended,
        )

    def _active_groups(self, name: str, option: CfgOption | None) -> tuple[tuple[str, ...], bool]:
        """Return the groups of a user, and whether the account is suspended: in DIRAC one is suspended in some VOs."""
        groups = tuple(self._groups.get(name, ()))
        suspended = chosen(option, self.accounts.vos, what="a VO")
        if option is None or not suspended:
            return groups, False
        active = tuple(group for group in groups if self.accounts.groups[group].vo not in suspended)
        if not active:
            option.take(f"user {name}: suspended")
            return groups, True
        option.change(
            f"user {name}: groups", f"without the groups of {', '.join(suspended)}; an account is suspended as a whole"
        )
        return active, False

    def _dns_of(self, name: str, option: CfgOption | None) -> list[str]:
        if option is None:
            return []
        dns: list[str] = []
        for dn in filter(None, map(str.strip, _BETWEEN_DNS.split(option.value))):
            if len(dn) > _LONGEST_DN:
                option.leave(f"a DN has at most {_LONGEST_DN} characters")
            elif self._dns.setdefault(dn, name) != name:
                option.leave(f"it is a DN of {self._dns[dn]}; a DN belongs to one user only")
            elif dn not in dns:
                option.take(f"user {name}: dns")
                dns.append(dn)
        return dns

    def _default_group(self, name: str, section: CfgSection, groups: tuple[str, ...]) -> str | None:
        """Return the user's own choice, else the first default of all users, else the first group."""
        for option in filter(None, (section.options.get("DefaultGroup"), self._registry.options.get("DefaultGroup"))):
            for group in option.elements:
                if group in groups:
                    option.take(f"user {name}: default_group")
                    return group
        return groups[0] if groups else None
