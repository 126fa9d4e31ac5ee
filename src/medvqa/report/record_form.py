"""The form of an evaluation record: what no file of a run knows, asked of the people who are responsible for it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_HEAD = """\
# The form of an evaluation record (medvqa record RUN --form=FILE): what no file of a run knows.
# Write between the quotation marks, or between three of them for several lines. What stays empty is shown as
# "not stated", and counted. Name no patients.
"""


class RecordForm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the form, "" where nothing is stated."""

    objective: Annotated[str, Meta(description="what the evaluation was to find out")] = ""
    intended_use: Annotated[str, Meta(description="what the model is for, and its place in the workflow")] = ""
    users: Annotated[str, Meta(description="who uses it, with what expertise, and who oversees it")] = ""
    setting: Annotated[str, Meta(description="hospital, department, country")] = ""
    operator: Annotated[str, Meta(description="who ran the evaluation and answers for it")] = ""
    data_source: Annotated[str, Meta(description="where the data come from: routine, study, open collection")] = ""
    collection: Annotated[str, Meta(description="when they were collected, before or after this was planned")] = ""
    selection: Annotated[str, Meta(description="how patients and images were found, included, excluded")] = ""
    acquisition: Annotated[str, Meta(description="devices, protocols, preparation of the images")] = ""
    reference_standard: Annotated[str, Meta(description="who set the answer key, how skilled, how, knowing what")] = ""
    representativeness: Annotated[str, Meta(description="how the data differ from the intended population")] = ""
    deidentification: Annotated[str, Meta(description="how the data were de-identified, and who checked it")] = ""
    consent: Annotated[str, Meta(description="consent of patients, or its waiver")] = ""
    ethics: Annotated[str, Meta(description="ethics committee and number, or why none is needed")] = ""
    licences: Annotated[str, Meta(description="licences of data and model, and whether this use keeps to them")] = ""
    protocol: Annotated[str, Meta(description="protocol and registration of the evaluation, or none")] = ""
    funding: Annotated[str, Meta(description="who paid, and their role")] = ""
    interests: Annotated[str, Meta(description="conflicts of interest")] = ""
    availability: Annotated[str, Meta(description="where data, code and this run folder are kept, for whom")] = ""
    limitations: Annotated[str, Meta(description="further limits that are known")] = ""
    approved_by: Annotated[str, Meta(description="who approved this record")] = ""
    approved_on: Annotated[str, Meta(description='the date, such as "2026-11-30"')] = ""
    contact: Annotated[str, Meta(description="whom to ask")] = ""

    @property
    def stated(self) -> dict[str, str]:
        """The fields with their texts, in their order; "" where nothing is stated."""
        return {name: str(getattr(self, name)).strip() for name in self.__struct_fields__}

    @property
    def missing(self) -> list[str]:
        """The names of the fields that are not stated."""
        return [name for name, text in self.stated.items() if not text]


def template() -> str:
    """Return an empty form, a comment above each field."""
    fields = next(iter(msgspec.json.schema(RecordForm)["$defs"].values()))["properties"]
    return _HEAD + "".join(f'\n# {field["description"]}\n{name} = ""\n' for name, field in fields.items())
