"""Prints the faults of a CycloneDX document, one per line; a correct document has no output.

python3 validate_sbom.py FILE

The rules are those of the CycloneDX project (its JSON schema, strict: members that it does not know
are faults), of package URLs, and of SPDX for expressions of licences.
"""

import json
import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing
from packageurl import PackageURL

text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
if fault is not None:
    print(fault)
document = json.loads(text)
spdx = get_spdx_licensing()
for component in [document["metadata"]["component"], *document["components"]]:
    for licence in component["licenses"]:
        for fault in spdx.validate(licence["expression"]).errors:
            print(f"{component['name']}: {fault}")
for component in document["components"]:
    url = PackageURL.from_string(component["purl"])
    if (url.name, url.version) != (component["name"], component["version"]):
        print(f"{component['name']}: {component['purl']}")
