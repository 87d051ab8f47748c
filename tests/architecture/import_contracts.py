"""A contract of import-linter that its own kinds cannot state: only some modules may be imported."""

import sys
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class StandsAloneContract(Contract):
    """The source module and its descendants import the standard library, each other, and the allowed packages.

    Configuration options:
        - source_module: a module or package.
        - allowed_packages: names of packages outside of it, under the same rule (optional).
    """

    type_name = "stands_alone"

    source_module = fields.ModuleField()
    allowed_packages = fields.SetField(subfield=fields.StringField(), required=False, default=set())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return the imports that are not permitted."""
        source: Any = self.source_module
        allowed: Any = self.allowed_packages
        own = {module for top in (source.name, *allowed) for module in (top, *graph.find_descendants(top))}
        permitted = own | sys.stdlib_module_names
        illegal = [
            f"{module} -> {imported}"
            for module in sorted(own)
            for imported in sorted(graph.find_modules_directly_imported_by(module) - permitted)
        ]
        return ContractCheck(kept=not illegal, metadata={"illegal": illegal})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the imports that are not permitted."""
        for line in check.metadata["illegal"]:
            output.print_error(line)
