"""The words by which an answer is known, by their role in a sentence.

Each role is a pattern of alternatives, made from lines of alternatives set apart by " | ". Languages stand side
by side, because a response does not say which one it is in.
"""

from __future__ import annotations

import re

from medvqa.scoring.text import CJK


def any_of(alternatives: str) -> str:
    """Return a pattern of whole words; what is written without spaces goes without word borders."""
    words = [word for word in re.split(r"\s\|\s|\n", alternatives) if word.strip()]
    unspaced = [word.strip() for word in words if re.search(f"[{CJK}]", word)]
    spaced = [word.strip() for word in words if not re.search(f"[{CJK}]", word)]
    return "(?:" + "|".join([rf"\b(?:{'|'.join(spaced)})\b", *unspaced]) + ")"


ANSWER = any_of(
    """
    answers? | ans | option | choice | selection | match | solution | pick | guess | prediction | decision
    conclusion
    diagnosis | verdict | response | output | assistant | letter | the one | correction
    correct(?: (?:ones?|options|choices|statements|letters?))?
    (?:right|best|appropriate|accurate|true|suitable|applicable|likely) (?:one|options|choices)
    antwort(?:en)? | lösung | r[ée]ponses? | respuestas? | rispost[ae] | respostas? | gabarito | ответы? | відповідь
    odpowied[źz] | antwoord(?:en)? | svar(?:et)? | cevap | yanıt | jawaban | đáp án | απάντηση | odpověď | उत्तर
    คำตอบ
    الإجابة | الجواب | תשובה | پاسخ
    答案 | 答え | 正解 | 回答 | 解答 | 诊断 | 診断 | 정답 | 답변 | 답 | 答
    """
)
"""Names an answer: "the ... is B"."""

FINAL_ANSWER = any_of(
    """
    final (?:answer|choice|decision|selection|diagnosis|option|verdict|response)
    最终答案 | 最終答案 | 最終的な答え
    """
)

IS = any_of(
    """
    is | are | was | would be | being | ist | sind | lautet | lauten | est | sont | es | son | sería | è | é | sono
    são
    seria | jest | är | er | adalah | là | dir | это
    應為 | 应为 | 應是 | 应是 | 是 | 为 | 為 | では | は | が | 은 | 는 | 이 | 가
    """
)
"""Stands between what names an answer and the answer."""

PARTICLE = any_of(
    """
    therefore | thus | then | most | likely | probably | clearly | definitely | simply | indeed | actually | obviously
    certainly | still | both | either | the | (?-i:an?) | just | only | really | one | closest to | options?
    choices?
    letters? | la | le | el | die | der | das | lettre | letra | lettera | opción | opção | Buchstabe
    选项 | 選項
    """
)
"""May stand right before an answer."""

CHOOSE = any_of(
    """
    choos(?:e|es|ing) | chose | chosen | select(?:s|ed|ing)? | pick(?:s|ed|ing)? | go(?:ing)? (?:with|for) | went with
    opt(?:ed|ing)? for | vot(?:e|ed|ing) for | settl(?:e|ed|ing) (?:on|for) | lean(?:s|ing)? (?:towards?|to) | guess
    say
    answer(?:ed|ing)? | ans | favou?r | believe | think | suspect | conclude | mean | meant
    wähle | choisis | elijo | escojo | scelgo | escolho | выбираю
    选择 | 選擇 | 选 | 選 | 认为是 | 應該是 | 应该是
    """
)
"""Has the answer as its object."""

CONCLUSION = any_of(
    """
    so | therefore | thus | hence | actually | instead | rather | it is | it's | its | that is | that's | this is
    that would be | (?:must|should|would) be | leaving | leaves | left with | namely | definitely | certainly
    clearly
    probably | likely | obviously | also | (?<!all )(?<!thing )but
    as a result | sondern | mais | sino | es ist | c'est(?: la)? | es (?:la|el)
    而是 | 所以 | 因此 | 故 | よって | したがって | 따라서
    """
)
"""Brings in an answer."""

HEDGE = any_of("(?:could|might|may) be | maybe | perhaps | possibly")

FINDING = any_of(
    """
    appears?(?: to be| as)? | seems?(?: to be)? | looks? like | (?:consistent|compatible|in keeping) with
    suggest(?:s|ing|ive of) | indicat(?:es|ing|ive of) | most likely | represent(?:s|ing) | shows? | showing
    depict(?:s|ing) | displays | (?:diagnosis|characteristic|typical) of | points? to | is | resembles? | fits?
    matches
    (?:diagnosed|identified|classified|described) as
    """
)
"""Brings in what is seen."""

VERB = any_of(
    """
    is | are | was | were | isn't | aren't | wasn't | seems? | appears? | looks? | can | could | cannot | would
    should
    might | may | must | has | have | does | doesn't | do | don't | remains? | fits? | matches | describes
    represents | shows
    """
)
"""Makes the words before it a subject."""

AUXILIARY = any_of(
    """
    is | are | was | were | (?:seem|appear)s?(?: to be)? | looks? | would be | should be | must be | remains? | being
    to be
    """
)
MODAL = any_of("can | could | may | might | do | does | did | has | have | will | would | should")
ADVERB = any_of(
    """
    also | the | (?-i:an?) | my | our | most | more | clearly | definitely | therefore | thus | indeed | very
    probably
    both | all | single | only | overall | still | one
    """
)
GOOD = any_of(
    """
    correct | right | true | accurate | appropriate | suitable | likely | plausible | probable | best
    (?<=the )(?:answers?|one|choice|match) | (?<=only )(?:answer|option|one|choice)
    (?<=my )(?:answer|choice|pick|guess|selection)
    """
)
FITS = r"(?:match|fit|describe|represent|explain|correspond|suit)\w*"
FITS_BEST = any_of(
    f"""
    (?:also )?(?:best|most (?:closely|accurately|appropriately|likely)) {FITS}
    (?:also )?{FITS} (?:best|better) | better {FITS} | it is
    """
)
BAD = any_of(
    """
    not | never | incorrect | wrong | false | unlikely | improbable | implausible | inappropriate | unsupported
    inconsistent | inaccurate | excluded | eliminated | ruled out | out | absent | irrelevant | less | least
    """
)
IS_GOOD_ABROAD = (
    r"\s?(?:ist (?:die )?(?:richtig|korrekt)|est (?:la (?:bonne )?réponse|correct)"
    r"|es (?:la (?:respuesta|opción)|correct)|è (?:la risposta|corrett|giust)"
    r"|é a (?:resposta|opção|alternativa)|est(?:á|ão) corret"
    r"|(?:选项|選項|项)?[是为為都]{0,2}(?:正确|正確|最佳|最合适|最可能|对的?(?=$|[。，,.\n]))"
    r"|[がは](?:正解|正し|最も)|を選|です|だと思|번?(?:입니다|[이가] (?:정답|맞)))"
)
IS_BAD_ABROAD = (
    r"\s?(?:ist (?:nicht|falsch)|n'est pas|est (?:faux|fausse|incorrect)|no es|es incorrect|non è|è (?:sbagliat|errat)"
    r"|não é|está incorret|не |неверн"
    r"|(?:选项|選項|项)?[是都]{0,2}(?:错误|錯誤|不正确|不正確|不对|不對|不符|不是|错|排除)|は(?:誤|間違|違|正しくな))"
)
"""What follows an option that is right, or wrong."""

NEGATION = any_of(
    """
    not | no(?!,) | never | neither | nor | without | cannot | can't | none | rather than | instead of
    except(?:ing|ed)? | exclud(?:e|es|ed|ing) | rul(?:e|es|ed|ing) out | eliminat(?:e|es|ed|ing) | discard(?:ed|ing)?
    unlikely | unlike | absence of | absent | negative for | free of | lack(?:s|ing)?(?: of)? | den(?:y|ies)
    opposed to | incorrect | wrong | (?:every|any|no)thing but | all but
    nicht | keine?n? | pas | jamais | nunca | não | ne | не | nie
    不 | 非 | 无 | 無 | 没 | 沒 | 未 | ない | 아니
    """
)
"""Denies what follows in its clause."""

RELATION = any_of(
    """
    than | versus | vs | similar to | mimics? | compared (?:to|with) | differentials? | beyond | (?:history|risk) of
    (?:adjacent|next|close|inferior|superior|anterior|posterior|lateral|medial|distal|proximal|in relation) to
    near | beside | behind | beneath | outside | around | surrounding
    """
)
"""Speaks of the next few words as of something else than what is asked for."""

NO_NEGATION = any_of("no doubt | without (?:a |any )?doubt | no question | not (?:only|just|merely) | doubt that")

TURN = any_of(
    """
    (?<!thing )(?<!all )but | however | although | though | yet | so | therefore | thus | hence | because | since
    which
    then | making | indicating | suggesting | consistent with | whereas | while
    sondern | mais | sino | mas | pero | aber | но
    而是 | 所以 | 因此
    """
)
"""Where a denial ends."""

CLAUSE = any_of("is | are | was | shows? | appears? | seems? | suggests? | indicates? | it | this | there | we | i")
"""Tells a clause from a part of a list."""

CUE = any_of(
    r"""
    actually | no | rather | instead | but | however | although | therefore | thus | hence | so | final | finally
    overall
    conclusion | conclude | ultimately | summary | re-?(?:consider|examin|evaluat|check|think)\w*
    closer (?:look|inspection)
    looking (?:closer|again|more) | second thoughts? | wait | correction | sorry | i meant? | scratch | changed?
    revis\w*
    doch | aber | cependant | donc | pero | sin embargo | entonces | però | quindi | mas | portanto | но | однако
    итак
    但 | 不过 | 然而 | 所以 | 因此 | 综上 | 最终 | しかし | したがって | 하지만 | 따라서
    """
)
"""Lets a later answer replace an earlier one."""

RETRACTION = any_of(
    """
    wait,? no | (?:wait|no),? (?:wait|that's (?:wrong|not)|that is (?:wrong|not)) | scratch that | my mistake
    i meant
    i was (?:wrong|mistaken) | i (?:have )?made (?:a mistake|an error) | take (?:that|it) back | correction(?=:)
    """
)
"""Takes back what was said before."""

HYPOTHESIS = any_of(
    """
    if (?!(?:i|one|we|you) (?:had|have|were|must|need|look|compare|consider|examine)|forced|pressed|required|i'm)
    unless | whether | suppose | assuming
    """
)
"""What follows in the sentence holds in another case only. "If I had to choose" is none."""

DISCUSSION = any_of(
    """
    would | could | might | may | should | can(?! be (?:seen|identified|observed|noted|appreciated)) | typically
    usually
    often | generally | commonly | refers? | affects? | involves?
    (?:is|are) (?:typically|usually|often|generally|commonly|an?|characteri[sz]ed|defined|known)
    """
)
"""Goes on to say what an option is like, not that it is the answer."""

_CANNOT = r"(?:cannot|can't|can not|could not|couldn't|(?:unable|not able) to|will not|won't)\s{1,3}(?:\w+ly )?"

ABSTENTION = any_of(
    rf"""
    {_CANNOT}(?:determine|tell|say|conclude|confirm|distinguish|ascertain|establish|decide|know|choose|select|pick)
    {_CANNOT}be (?:\w+ly )?(?:determined|certain|sure|told|known|ascertained|established|confirmed|identified|concluded)
    {_CANNOT}be (?:\w+ly )?(?:diagnosed|assessed|answered|made)
    {_CANNOT}(?:make|give|provide|offer) an? (?:definit(?:e|ive)|certain|accurate|reliable|conclusive|confident|clear)
    (?:not |im)possible to | not feasible | no way (?:of knowing|to (?:know|tell)) | not (?:enough|sufficient)
    (?:insufficient|inadequate) (?:\w+ )?(?:information|evidence|details?|data|context)
    do(?:es)?(?: not|n't) (?:\w+ )?(?:contain|provide|show|give|offer|have|include) (?:enough|sufficient|adequate)
    i (?:do not|don't) know | no idea | not (?:sure|certain) | (?:hard|difficult) to (?:tell|say|know|determine)
    (?:more|further|additional) (?:\w+ )?information (?:is|would be) (?:needed|required|necessary)
    (?:nicht|unmöglich)(?: zu)? (?:bestimm|beurteil|feststell)\w* | impossible (?:de|à) (?:déterminer|dire)
    ne peu\w+ (?:pas )?(?:être )?(?:pas )?détermin\w* | no (?:se )?pued\w+ (?:determinar|decir)
    non (?:è possibile|si può|posso) (?:determinar|stabilir|dir)\w*
    não (?:é possível|posso|se pode) (?:determinar|dizer)
    невозможно (?:определить|сказать)
    [无無]法(?:确定|確定|判断|判斷|辨别|判定) | 不能确定 | 不确定 | 不知道 | 判断でき | わかりません | 特定できません
    판단할 수 없 | 알 수 없 | 확인할 수 없
    """
)
"""Says that it cannot be known."""

REFUSAL = any_of(
    rf"""
    {_CANNOT}(?:assist|help|provide|give|offer|answer|analy[sz]e|interpret|view|see|process|examine|evaluate|assess)
    {_CANNOT}(?:diagnose|identify|comply|fulfil|discuss|engage|make|access|open|read|recommend|support|comment|do|perform)
    {_CANNOT}(?:review|look|be used|continue|respond|complete)
    i (?:refuse|decline) | against (?:my|the) (?:policy|guidelines) | as an ai
    i(?: a|')m not (?:qualified|allowed|permitted|licensed|comfortable|a (?:doctor|medical|physician|healthcare))
    (?:do not|don't) have the (?:\w+ )?(?:ability|capability|capacity)
    no image (?:was|is|has been) (?:provided|attached|given|uploaded) | without the image
    kann (?:\w+ ){{0,4}}nicht | je ne peux pas | no puedo | non posso | não posso | не могу
    (?:[无無]法|不能)(?:提供|协助|回答|帮助|分析|给出|查看|協助|幫助) | できません | できかねます | 할 수 없
    드릴 수 없
    """
)
"""Declines, or says that it is not able to do such things."""
