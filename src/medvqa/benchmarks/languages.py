"""German and Chinese for users' benchmarks: names of columns and kinds, words for yes and no, and default prompts.

Words are normalised, never translated: a German answer is compared with German words. The prompts are this project's
own; their names and digests are in every signature.
"""

from __future__ import annotations

from collections.abc import Mapping

from medvqa.items import Kind
from medvqa.protocols.prompts import Template
from medvqa.scoring.closed import YES_OR_NO

OPTION = "{letter}. {text}\n"
"""One line of {options}."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "question": ("frage", "fragetext", "fragestellung", "问题", "題目", "题目", "問題", "提问"),
    "answer": (
        *("antwort", "antworten", "richtige antwort", "korrekte antwort", "lösung", "loesung", "referenz"),
        *("答案", "正确答案", "正確答案", "参考答案", "标准答案", "回答"),
    ),
    "image": (
        *("bild", "bilder", "bilddatei", "bildpfad", "dateiname", "datei"),
        *("图像", "图片", "圖像", "圖片", "影像", "图像路径", "图片路径", "文件名"),
    ),
    "id": ("nr", "nummer", "fragenummer", "frage id", "编号", "編號", "序号", "题号"),
    "options": ("optionen", "antwortmöglichkeiten", "auswahl", "选项", "選項"),
    "kind": ("fragetyp", "frageart", "题型", "题目类型", "问题类型"),
    "pair": ("paar", "paar id", "配对", "成对"),
    "patient": ("patientin", "patienten id", "patientennummer", "患者", "病人", "患者编号", "病人编号"),
    "case": ("fall", "fall id", "fallnummer", "病例", "病例编号"),
    "cluster": ("gruppe", "分组"),
}
"""German and Chinese names of columns, in lower case, by role."""

OPTION_COLUMNS = ("antwort {}", "auswahl {}", "antwortmöglichkeit {}", "选项{}", "选项 {}", "選項{}", "選項 {}")
"""Names of the column of an option, with its letter."""

KINDS: Mapping[str, Kind] = {
    "einfachauswahl": "single_choice",
    "einfachwahl": "single_choice",
    "mehrfachauswahl": "multiple_response",
    "mehrfachwahl": "multiple_response",
    "ja_nein": "judgment",
    "ja_nein_frage": "judgment",
    "lückentext": "fill_in_the_blank",
    "kurzantwort": "short_answer",
    "offen": "short_answer",
    "单选": "single_choice",
    "单选题": "single_choice",
    "多选": "multiple_response",
    "多选题": "multiple_response",
    "判断": "judgment",
    "判断题": "judgment",
    "是非题": "judgment",
    "填空": "fill_in_the_blank",
    "填空题": "fill_in_the_blank",
    "简答": "short_answer",
    "简答题": "short_answer",
}
"""German and Chinese names of kinds, as slugs."""

WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "en": YES_OR_NO,
    "de": {
        "yes": ("true", "ja", "wahr", "richtig", "korrekt", "zutreffend", "stimmt", "trifft zu"),
        "no": (
            *("false", "nein", "falsch", "unwahr", "unzutreffend", "nicht wahr", "nicht richtig", "nicht korrekt"),
            *("nicht zutreffend", "stimmt nicht", "trifft nicht zu"),
        ),
    },
    "zh": {
        "yes": ("true", "是", "是的", "对", "對", "对的", "正确", "正確", "有", "存在", "可以", "能"),
        "no": (
            *("false", "否", "不", "不是", "不是的", "不对", "不對", "错", "錯", "错误", "錯誤", "不正确", "不正確"),
            *("没有", "沒有", "没", "无", "無", "不存在", "不可以", "不能"),
        ),
    },
}
"""Words for yes and no in judgments, beside `yes` and `no`, by language."""

BY_KIND: Mapping[str, Mapping[Kind, Template]] = {
    "de": {
        "single_choice": Template(
            "own/single-choice-de",
            "{question}\n{options}Antworten Sie nur mit dem Buchstaben der richtigen Option.",
            OPTION,
        ),
        "multiple_response": Template(
            "own/multiple-response-de",
            "{question}\n{options}Eine oder mehrere Optionen sind richtig. "
            "Antworten Sie mit den Buchstaben aller richtigen Optionen, durch Kommas getrennt.",
            OPTION,
        ),
        "judgment": Template("own/judgment-de", "{question}\nAntworten Sie nur mit Ja oder Nein."),
        "fill_in_the_blank": Template(
            "own/fill-in-the-blank-de", "{question}\nAntworten Sie nur mit den Wörtern, die die Lücke füllen."
        ),
        "short_answer": Template("own/short-answer-de", "{question}\nAntworten Sie kurz."),
    },
    "zh": {
        "single_choice": Template("own/single-choice-zh", "{question}\n{options}请只回答正确选项的字母。", OPTION),
        "multiple_response": Template(
            "own/multiple-response-zh",
            "{question}\n{options}正确选项有一个或多个。请回答所有正确选项的字母，用逗号分隔。",
            OPTION,
        ),
        "judgment": Template("own/judgment-zh", "{question}\n请只回答“是”或“否”。"),
        "fill_in_the_blank": Template("own/fill-in-the-blank-zh", "{question}\n请只回答填入空白处的词语。"),
        "short_answer": Template("own/short-answer-zh", "{question}\n请简要回答。"),
    },
}
"""The default prompts of MC and GD in other languages than English."""

PREFIX: Mapping[str, Template] = {
    "de": Template("own/ps-de", "Frage: {question} Antwort:"),
    "zh": Template("own/ps-zh", "问题：{question} 答案："),
}
"""The default prompts of PS in other languages than English."""

FREE: Mapping[str, Template] = {
    language: Template(f"own/ff-{language}", templates["short_answer"].text) for language, templates in BY_KIND.items()
}
"""The default prompts of FF in other languages than English."""

DECIMAL_COMMA = frozenset(
    {"cs", "da", "de", "es", "fi", "fr", "hu", "it", "nb", "nl", "pl", "pt", "ru", "sv", "tr", "uk"}
)
"""Languages whose numbers have a decimal comma."""
