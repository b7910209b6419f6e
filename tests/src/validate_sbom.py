"""Prints the errors of a CycloneDX document, one per line. A valid document causes no output.

python3 validate_sbom.py FILE

It checks the JSON schema of CycloneDX in strict mode (unknown members are errors), the package
URLs, and the SPDX licence expressions.
"""

import json
import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing
from packageurl import PackageURL

text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
if error is not None:
    print(error)
document = json.loads(text)
spdx = get_spdx_licensing()
for component in [document["metadata"]["component"], *document["components"]]:
    for licence in component["licenses"]:
        for error in spdx.validate(licence["expression"]).errors:
            print(f"{component['name']}: {error}")
for component in document["components"]:
    url = PackageURL.from_string(component["purl"])
    if (url.name, url.version) != (component["name"], component["version"]):
        print(f"{component['name']}: {component['purl']}")
