"""Words that reveal an answer, grouped by their role in a sentence.

A role is a pattern of alternatives, written as lines with " | " between them. Languages are mixed, because the
language of a response is unknown.
"""

from __future__ import annotations

import re

from medvqa.scoring.text import CJK


def any_of(alternatives: str) -> str:
    """Return a pattern of whole words; scripts without spaces get no word borders."""
    words = [word for word in re.split(r"\s\|\s|\n", alternatives) if word.strip()]
    unspaced = [word.strip() for word in words if re.search(f"[{CJK}]", word)]
    spaced = [word.strip() for word in words if not re.search(f"[{CJK}]", word)]
    return "(?:" + "|".join([rf"\b(?:{'|'.join(spaced)})\b", *unspaced]) + ")"


ANSWER = any_of(
    """
    answers? | ans | option | choice | selection | match | solution | pick | guess | prediction | decision
    conclusion
    diagnosis | verdict | response | output | assistant | letter | the one | correction
    statement | claim | assertion | (?:grade|class|category|label)(?=:)
    correct(?: (?:ones?|options|choices|statements|letters?))?
    (?:right|best|appropriate|accurate|true|suitable|applicable|likely) (?:one|options|choices)
    antwort(?:en)? | lösung | r[ée]ponses? | respuestas? | rispost[ae] | respostas? | gabarito | ответы? | відповідь
    (?:richtig|korrekt)(?= ist)
    (?:richtige?|korrekte?|beste) (?:option|variante|auswahl) | alternativa (?:corret|correct)a | вариант(?: ответа)?
    opci[oó]n (?:correcta|adecuada) | opç[aã]o (?:correta|adequada) | opzione corretta | option correcte
    odpowied[źz] | antwoord(?:en)? | svar(?:et)? | cevap | yanıt | jawaban | đáp án | απάντηση | odpověď | उत्तर
    คำตอบ
    الإجابة | الجواب | תשובה | پاسخ
    答案 | 答え | 正解 | 回答 | 解答 | 诊断 | 診断 | 정답 | 답변 | 답 | 答
    (?:正确|正確|最佳|合适|合適|适当)的?(?:选项|選項) | (?:適切な|正しい|正解の)選択肢
    """
)
"""Names an answer: "the ... is B"."""

ANSWER_NOUN = any_of(
    """
    answers? | antwort(?:en)? | lösung | r[ée]ponses? | respuestas? | respostas? | rispost[ae] | ответы?
    вариант ответа
    alternativa
    الإجابة | الجواب
    """
)
"""Names an answer right before a letter: "answer B"."""

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
    includes? | comprises? | هو | هي | seria | jest | är | er | adalah | là | dir | это
    應為 | 应为 | 應是 | 应是 | 是 | 为 | 為 | では | は | が | 은 | 는 | 이 | 가
    """
)
"""Joins the word for an answer and the answer itself."""

PARTICLE = any_of(
    """
    therefore | thus | then | donc | somit | quindi | portanto | entonces
    most | likely | probably | clearly | definitely | simply | indeed | actually | obviously
    certainly | still | both | either | the | (?-i:an?) | just | only | really | one | closest to | options?
    choices?
    letters? | answer | antwort | réponse | respuesta | resposta | risposta | la | le | el | die | der | das
    lettre | letra | lettera | opción | opção | Buchstabe
    选项 | 選項
    """
)
"""May directly precede an answer."""

CHOOSE = any_of(
    """
    choos(?:e|es|ing) | chose | chosen | select(?:s|ed|ing)? | pick(?:s|ed|ing)? | go(?:ing)? (?:with|for) | went with
    opt(?:ed|ing)? for | vot(?:e|ed|ing) for | settl(?:e|ed|ing) (?:on|for) | answer(?:ed|ing)? | ans | conclude
    wähle | choisis | choisirais | elijo | elegiría | escojo | scelgo | escolho | выбираю
    选择 | 選擇 | 选 | 選
    """
)
_PERSON = (
    r"(?:students?|residents?|colleagues?|classmates?|users?|textbooks?|doctors?|physicians?|radiologists?|clinicians?"
    r"|readers?|experts?|annotators?|candidates?|authors?|people|others|somebody|someone|everybody|everyone|nobody"
    r"|no one|another (?:model|ai|system)|he|she|they)"
)
_SAYS = (
    r"(?:say|said|says|write|wrote|claim|claims|claimed|think|thinks|thought|believe|believes|believed|choose|chooses"
    r"|chose|chosen|pick|picks|picked|select|selects|selected|answer|answers|answered|prefer|prefers|preferred|guess"
    r"|guesses|guessed|mark|marked|went|go|goes)"
)
NOT_MINE = any_of(
    rf"""
    {_PERSON}(?: [a-z]+){{0,2}} {_SAYS} | {_PERSON}(?:'s|')(?= ) | according to (?:the|a|an|my|one|this) {_PERSON}
    (?:his|her|their) (?:\w+ )?(?:answers?|choices?|guess|pick|response)
    (?:previous|preceding|prior|earlier|last|next|other|another) (?:answers?|questions?|choices?|quiz)
    (?:in|for|of|to) the (?:previous|preceding|last|next|other) (?:case|item|example|one)
    previously (?:i|we) (?:said|thought|chose|answered) | used to be | (?:was|were) about to
    (?:almost|nearly) (?:chose|choose|picked|pick|said|say|selected|went|answered|thought)
    would have (?:chosen|picked|selected|said|answered|guessed|gone|thought) | doubtful (?:that|whether|if)
    (?:trap|decoy|distractor|worst|second[- ]best) (?:answers?|choices?|options?) | (?:second|third)[- ]most
    example(?=[:,] (?:the )?(?:correct )?answer) | format(?=:) | (?:respond|reply) (?:like|as in)(?: this)?(?=:)
    please (?:select|choose|pick|answer)
    """
)
"""In the sentence of an answer: it is somebody else's, of another question, or none at all: "the student chose A"."""
SAID_BY = (
    r",? (?:said|says|wrote|claims|claimed|thought|thinks|answered) (?:the|a|an|my|his|her|another|someone|somebody)\b"
)
"""The same, behind the answer."""

BELIEVE = any_of(
    """
    ich würde | lean(?:s|ing)? (?:towards?|to) | guess | say | favou?rs? | believe | think | suspect | mean | meant
    认为是 | 應該是 | 应该是
    """
)
"""Has the answer as its object."""

CONSEQUENCE = any_of(
    """
    so | therefore | thus | hence | as a result | 所以 | 因此 | 故 | よって | したがって | 따라서
    """
)
CONCLUSION = any_of(
    """
    actually | instead | rather | it is | it's | its | that is | that's | this is
    that would be | (?:must|should|would) be | leaving | leaves | left with | namely | definitely | certainly
    clearly
    probably | (?<!less )(?<!least )likely | obviously | also | (?<!all )(?<!thing )but
    sondern | mais | sino | es ist | c'est(?: la)? | es (?:la|el)
    而是
    """
)
"""Introduces an answer. Only a choice or a consequence is unambiguous."""

HEDGE = any_of("(?:could|might|may) be | maybe | perhaps | possibly")

_POINTER = "|".join(f"(?<={word} )" for word in ("arrow", "arrows", "arrowhead", "arrowheads", "marker", "it", "which"))
_POINTS = rf"(?:{_POINTER})(?:points?|pointing) to|(?:points?|pointing) to(?! the\b)"

FINDING = any_of(
    f"""
    appears?(?: to be| as)? | seems?(?: to be)? | looks? like | (?:consistent|compatible|in keeping) with
    suggest(?:s|ing|ive of) | indicat(?:es|ing|ive of) | most likely | represent(?:s|ing) | shows? | showing
    depict(?:s|ing) | displays | (?:diagnosis|characteristic|typical) of | {_POINTS} | is | resembles? | fits?
    matches
    (?:diagnosed|identified|classified|described) as | impression(?=:)
    """
)
"""Introduces a finding."""

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
DECISIVE = any_of(
    """
    correct | right | best
    (?<=most )(?:accurate|appropriate|suitable|likely|plausible|probable|consistent|compatible|fitting)
    (?<=the )(?:answers?|one|choice|match) | (?<=only )(?:answer|option|one|choice)
    (?<=my )(?:answer|choice|pick|guess|selection)
    """
)
GOOD = any_of("true | accurate | appropriate | suitable | likely | plausible | probable")
FITS = r"(?:match|fit|describe|represent|explain|correspond|suit)\w*"
FITS_BEST = any_of(
    f"""
    (?:also )?(?:best|most (?:closely|accurately|appropriately|likely)) {FITS}
    (?:also )?{FITS} (?:best|better) | better {FITS} | it is(?! not) | (?:(?:is|are) )?favou?red
    more (?:likely|probable|consistent|plausible)
    """
)
BAD = any_of(
    """
    not | never | incorrect | wrong | false | unlikely | improbable | implausible | inappropriate | unsupported
    inconsistent | inaccurate | excluded | eliminated | ruled out | out | absent | irrelevant | less | least
    """
)
IS_GOOD_ABROAD = (
    r"\s?(?:ist (?:die )?(?:richtig|korrekt)|est (?:la (?:bonne )?réponse|(?:la )?(?:bonne|correct))"
    r"|es (?:la (?:respuesta|opción|correcta)|correct)|è (?:la risposta|corrett|giust)"
    r"|é a (?:resposta|opção|alternativa)|est(?:á|ão) corret"
    r"|(?:选项|選項|项)?[是为為都]{0,2}(?:正确|正確|最佳|最合适|最可能|对的?(?=$|[。，,.\n]))"
    r"|[がは](?:正解|正し|最も)|を選|です|だと思|번?(?:입니다|[이가] (?:정답|맞)))"
)
IS_BAD_ABROAD = (
    r"\s?(?:(?:ist|liegt|sind|wird) (?:nicht|falsch|ausgeschlossen)|n'est pas|est (?:faux|fausse|incorrect)"
    r"|no es|es incorrect|non è|è (?:sbagliat|errat)"
    r"|não é|está incorret|не |неверн|(?:была )?исключен|маловероят|est (?:exclu|écarté)|(?:queda |está |é )?descartad"
    r"|(?:è |viene )?esclus|(?:(?:ist|sind|erscheint) )?(?:sehr |eher )?unwahrscheinlich"
    r"|(?:(?:est|es|è|é) )?(?:peu|poco|pouco) (?:prob[aá]b|prov[aá]ve)"
    r"|(?:选项|選項|项)?[是都]{0,2}(?:错误|錯誤|不正确|不正確|不对|不對|不符|不是|错|排除)|(?:的|の|의)?(?:可能性|가능성)[は이很较比]{0,2}(?:低|小|낮)|は(?:誤|間違|違|正しくな)"
    r"|[がは](?:認められ|見られ|確認でき|あり)(?:ません|ない)|[은는이가] (?:보이지|관찰되지|없)"
    r"|не (?:выявл|определ|вид))"
)
"""Follows a right option, or a wrong one."""

SHOWS = any_of(
    f"""
    is | are | isn't it | there'?s | it'?s | shows? | showing | reveals? | revealing | demonstrat(?:es?|ing)
    depict(?:s|ing)
    displays? | exhibits? | contains? | includes | confirms? | represents? | illustrates? | outlines? | covers
    visuali[sz]es
    has | have | having | with | includ(?:es|ing) | plus | features | highlights? | marks | indicates? | indicating
    indicated by | means | suggests? | suggesting | suggestive of | suspicious for | concerning for
    {_POINTS}
    favou?rs? | diagnostic of | diagnosis of | typical (?:of|for) | characteristic (?:of|for)
    pathognomonic (?:of|for)
    classic (?:of|for) | (?:consistent|compatible|in keeping|in line) with
    (?:evidence|signs?|features|findings|appearance|picture|pattern|presence|case) of
    (?:image|scan|photograph|view|section|radiograph|x-ray|ct|mri|example|segmentation|mask|outline) of
    (?:consists?|composed) of | (?:on|with|against) a background of | (?:man sieht|man erkennt|erkennt man|zeigt sich)
    (?:i|we|one)(?: can| could)?(?: clearly)? (?:see|identify|observe|note|recogni[sz]e|detect|appreciate)
    i(?:'d| would) call
    (?:covered|accompanied|complicated|topped|surmounted) (?:by|with)
    (?:acquired|made|taken|obtained|produced|performed) (?:by(?! the\\b)|with|using|via)
    (?:identif(?:y|ies|ied)|classif(?:y|ies|ied)|diagnosed|described|recogni[sz]ed|graded)(?: it| this)? as
    identifies it as | corresponds? to | looks? like | appears?(?: to be| as)? | seems?(?: to be)? | resembles?
    zeigt | zeigen | sieht man | sind? erkennbar | ist | es handelt sich um | vereinbar mit | passend zu | spricht für
    hinweisend auf
    montre | montrent | révèle | on voit | on observe | il s'agit d(?:e|'un|'une) | est | évoque | compatible avec
    muestra | revela | se (?:observa|aprecia|ve) | se trata de | es | compatible con | sugiere
    mostra | revela | observa-se | trata-se de | é | è | compatível com | sugere | si (?:osserva|vede)
    si tratta di | suggerisce
    показывает | вид(?:ен|на|но|ны) | определяется | выявлен[аоы]? | соответствует | это
    (?:ت|ي)ظهر
    显示 | 顯示 | 可见 | 可見 | 提示 | 表现为 | 表現為 | 符合 | 属于 | 屬於 | 是 | 为 | 為 | 有 | 存在 | 考虑为
    诊断为
    """
)
"""Asserts that the image shows the words that follow: "the scan shows", "consistent with"."""

SEEN = any_of(
    r"""
    (?:is|are) (?:\w+ly |also )?(?:present|seen|visible|identified|noted|evident|observed)
    (?:is|are) (?:\w+ly |also )?(?:demonstrated|detected|shown|found)
    (?:is|are) indicated(?= by) | can be (?:\w+ly )?(?:seen|identified|observed|noted|appreciated)
    (?:ist|sind) (?:zu (?:sehen|erkennen)|erkennbar|sichtbar|vorhanden) | liegt vor
    est (?:visible|présente?) | es visible | está presente | é vis[íi]vel | è (?:visibile|presente)
    を(?:示|認め|呈) | [がは](?:認められ|見られ|確認され|疑われ)(?!ません|ない) | を考え
    [을를] (?:보여|보이|시사|나타) | [이가] (?:보입|보인|관찰됩|관찰된|있습)
    """
)
"""Asserts that the image shows the preceding words."""

_YEARS = r"(?:19|20)\d\d"
NO_FINDING = any_of(
    rf"""
    history | hx | previous(?:ly)? | prior | formerly | earlier | known | suspected | status post | post
    resolved | s/p | post-?op\w*
    post-?treatment | after (?:treatment|resection|surgery|removal) | treat(?:ed|ment) | ago
    last (?:year|month|week)
    (?:in|since) {_YEARS} | had
    was (?:performed|given|taken|placed|applied|administered|ordered|done|requested)(?! (?:by|with|using|via))
    resection of
    admitted | hospitali[sz]ed | (?:presented|presents|presenting|diagnosed) with | suffer\w*
    mother | father | family | sibling | follow-?up (?:of|for) | surveillance | screening
    rul(?:e|ed|ing) out | exclu(?:de|ding) | evaluat(?:e|ion)(?: for| of)? | assess(?:ment)?(?: for| of)? | r/o
    (?:indication|question|query|concern|request|reason|clinical \w+)s?(?= (?:of|for)|:)
    query | background(?=:) | technique(?=:) | comparison(?=:) | differentials? | most common | causes?
    possibilit(?:y|ies) | risk | prone
    typically | usually | often | commonly | generally | frequently | in general | sometimes | known to
    due to | because of | caused by | secondary to | associated with | related to | complication of
    used (?:to|for|in)
    unlike | compared (?:to|with) | in contrast (?:to|with) | as opposed to | versus | vs | than | similar to
    mimics?
    differs? from | different from | would(?! (?:say|call|choose|conclude|suggest|favou?r)) | could | might | may
    if | whether | suppose | assuming
    consider(?:s|ed|ing)?
    verdacht | fraglich | zustand nach | z\.n | v\.a | vorgeschichte | anamnese | bekannte[rnms]? | ausschluss
    früher\w*
    ant[ée]c[ée]dents? | suspicion | connue? | à éliminer | précédent\w*
    antecedentes? | sospecha | previ[oa]s? | conocid[oa] | descartar
    hist[óo]ria | hist[óo]rico | pr[ée]vi[oa]s? | suspeita | sospett[oa]
    anamnesi | pregress[oa] | подозрени[ея] | анамнез\w* | ранее
    既往 | 病史 | 疑似 | 怀疑 | 懷疑 | 曾经 | 曾經 | 以前 | 排除 | 鉴别 | 鑑別 | 疑い | 병력 | 과거 | 의심
    """
)
"""Refers to the past, a suspicion, a rule or another case, not to the image."""

LATER = any_of(
    r"""
    ago | last (?:year|month|week) | suspected | (?:in|since) (?:19|20)\d\d | previously | had | was | were
    (?:ha(?:s|ve) )?(?:resolved|cleared) | in question | versus | vs | screening | cannot be | can't be
    病史 | 既往 | の疑い | 의심 | 병력
    """
)
"""The same as NO_FINDING, directly after an option."""

AFTER_NOUN = any_of(
    """
    zu | of | in | with | without | at | on | from | to | as | by | for | which | that | and | but | or | due
    because
    since
    after | over | than | rather | given | und | et | y | e | im | mit | dans | en | au | da | à | del | della
    des | der | du | de | в | с
    """
)
"""May follow a noun that is not the subject of a verb."""

UNDECIDED = any_of(
    """
    or | and | if | unless | although | though | but | however | versus | vs | assuming | when | provided | oder | und
    ou | et | o | y
    """
)
"""After an answer: more of it, or a condition, may follow."""

PLACE = any_of(
    """
    where | above | below | under | underneath | over | beneath | behind | beside | besides | near | around
    surround(?:s|ed)
    between | among | along | across | through | throughout | toward(?:s)? | into | onto | from | to
    for | before | after | until | during | against | beyond | outside | inside | within | at | by | on | off | about
    unter | über | neben | hinter | vor | zwischen | aus | bei | nach | sous | près | derrière | entre | bajo
    detrás | cerca | desde
    abaixo | acima | atrás | perto | sotto | sopra | dietro | vicino | под | над | за | около | возле
    """
)
"""Relates the following words to the subject of the sentence."""

EXAMINE = any_of(
    r"""
    analy[sz](?:e|es|ing|is) | evaluat(?:e|es|ing|ion) | consider(?:s|ing)? | examin(?:e|es|ing|ation)
    review(?:s|ing)?
    assess(?:es|ing|ment)? | discuss(?:es|ing|ion)? | breakdown | break(?:ing)? down
    look(?:ing)? (?:at|through|into) | go(?:ing)? (?:over|through)
    walk(?:ing)? through | work(?:ing)? through | step(?:ping)? through | rul(?:e|ing) out | eliminat(?:e|ing)
    compar(?:e|ing|ison)
    check(?:ing)? | weigh(?:ing)? | explor(?:e|ing) | explain(?:ing)? | explanation | tak(?:e|ing)
    gehen | betrachten | analysieren | prüfen | bewerten | untersuchen | schauen | analyse
    analysons | examinons | considérons | étudions | évaluons | passons en revue | regardons | analyser | voyons
    anali(?:cemos|zar|zo|zando|cé) | examin(?:emos|ar|o) | evalu(?:emos|ar|o|ando) | consider(?:emos|ar|ando)
    veamos | revis(?:emos|ar)
    repas(?:emos|ar) | anális[ie]s? | analis(?:ar|emos|ando) | avali(?:ar|emos|ando)
    anali(?:zziamo|zzando|si) | esaminiamo | valutiamo | consideriamo | vediamo
    рассмотрим | проанализируем | разбер[её]м | оценим | анализ
    分析 | 逐一 | 逐个 | 逐項 | 评估 | 評估 | 看看 | 考虑 | 考慮 | 比较 | 检查 | 讨论
    """
)
OPTIONS = any_of(
    r"""
    options? | choices? | possibilit(?:y|ies) | alternatives? | candidates? | answers? | diagnos[ei]s
    differentials? | them
    each(?: one)? | optionen | antworten | (?:antwort)?möglichkeiten | auswahl
    propositions? | réponses? | choix | opci[oó]n(?:es)? | respuestas? | alternativas? | opç(?:ão|ões) | respostas?
    opzion[ei] | rispost[ae] | alternativ[ae] | вариант\w* | ответ\w*
    选项 | 選項 | 每一?[个項项] | 各[个項项]
    """
)
ANNOUNCEMENT_ABROAD = (
    r"(?:选项|選項)[^。:\n]{0,8}(?:分析|逐一|逐个|评估)|(?:選択肢|各項目)を?[^。:\n]{0,12}(?:検討|見て|評価|分析|考え)"
    r"|(?:선택지|옵션|보기)[를을]?[^.:\n]{0,12}(?:살펴|분석|검토|평가)"
)
"""With `EXAMINE` and `OPTIONS`: announces a walk through the options, as in "let's analyze each option:"."""

NEGATION = any_of(
    """
    not | no(?!,) | never | neither | nor | without | cannot | can't | none | rather than | instead of
    except(?:ing|ed)? | exclud(?:e|es|ed|ing) | rul(?:e|es|ed|ing) out | eliminat(?:e|es|ed|ing) | discard(?:ed|ing)?
    unlikely | unlike | (?:less|least) (?:likely|probable|probably)
    (?:i|we|would|highly|strongly|seriously|really) doubt | little (?:evidence|sign|suggestion) | fail(?:s|ed)? to
    (?:scarcely|hardly|barely) any | bezweif(?:le|eln) | dud(?:o|amos) | je doute | doutons
    (?:poco|pouco|peu) (?:probable|provável|probabile) (?:que|qu|che)
    absence of | absent | negative for | free of | lack(?:s|ing)?(?: of)? | den(?:y|ies)
    opposed to | incorrect | wrong | (?:every|any|no)thing but | all but
    absence d[e'] | ausência de | ausencia de | assenza di | abwesenheit
    nicht | kein(?:e[nmrs]?)? | ohne | pas | jamais | aucune? | sans | nunca | não | sem | ne | non | senza
    nessun[ao]?
    descart(?:a|an|ar|amos|ad[oa]s?) | écart(?:e|er|ons|ée?) | exclut | exclui | esclud(?:e|ere|iamo|o) | esclus[oa]
    sin | tampoco | ni | не | нет | без | nie | لا | ليس | ليست | بدون
    不 | 非 | 无 | 無 | 没 | 沒 | 未 | ない | 아니
    """
)
"""Denies the words that follow in its clause."""

RELATION = any_of(
    """
    than | versus | vs | similar to | mimics? | compared (?:to|with) | differentials? | beyond | (?:history|risk) of
    (?:adjacent|next|close|inferior|superior|anterior|posterior|lateral|medial|distal|proximal|in relation) to
    near | beside | behind | beneath | outside | around
    """
)
"""Relates the next few words to the subject, so they are no answer."""

NO_NEGATION = any_of("no doubt | without (?:a |any )?doubt | no question | not (?:only|just|merely)")

TURN = any_of(
    """
    (?<!thing )(?<!all )but | however | although | though | yet | so | therefore | thus | hence | because | since
    which
    then | making | indicating | suggesting | consistent with | whereas | while
    sondern | mais | sino | mas | pero | aber | но
    而是 | 所以 | 因此
    """
)
"""Ends a denial."""

CLAUSE = any_of("is | are | was | shows? | appears? | seems? | suggests? | indicates? | it | this | there | we | i")
"""Distinguishes a clause from a part of a list."""

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
"""Takes back an earlier answer."""

HYPOTHESIS = any_of(
    """
    if (?!(?:i|one|we|you) (?:had|have|were|must|need|look|compare|consider|examine)|forced|pressed|required|i'm)
    unless | whether | suppose | assuming
    """
)
"""Opens a hypothetical sentence. "If I had to choose" is not hypothetical."""

DISCUSSION = any_of(
    """
    would | could | might | may | should | can(?! be (?:seen|identified|observed|noted|appreciated)) | typically
    usually
    often | generally | commonly | refers? | affects? | involves?
    (?:is|are) (?:typically|usually|often|generally|commonly|an?|characteri[sz]ed|defined|known)
    """
)
"""Describes an option without choosing it."""

SUPPOSING = any_of("would | could | might | should | typically | usually | generally | commonly")
"""Describes how an option would look."""

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
    (?:nicht|unmöglich)(?: zu)?(?: sicher| eindeutig| genau)? (?:bestimm|beurteil|feststell|sagen)\w*
    impossible (?:de|à) (?:déterminer|dire)
    (?:ne |n')?p(?:eut|eux|uis|ossible) pas (?:être )?(?:conclure|détermin\w*|dire|savoir|trancher|préciser)
    ne peu\w+ (?:pas )?(?:être )?(?:pas )?détermin\w*
    no (?:(?:se )?pued\w+|es posible) (?:determinar|decir|saber)\w*
    non (?:è possibile|si può|posso) (?:determinar|stabilir|dir)\w*
    não (?:é possível|posso|se pode) (?:determinar|dizer)
    (?:невозможно|не могу|не удается) (?:определить|сказать)
    (?:[无無]法|不能|难以|難以)[^，。,.\n]{{0,12}}(?:确定|確定|判断|判斷|辨别|辨別|判定|得出) | 不能确定 | 不确定
    不知道 | 判断でき | わかりません | 特定できません
    판단할 수 없 | 알 수 없 | 확인할 수 없
    """
)
"""States that the answer cannot be known."""

REFUSAL = any_of(
    rf"""
    {_CANNOT}(?:assist|help|provide|give|offer|answer|analy[sz]e|interpret|view|see|process|examine|evaluate|assess)
    {_CANNOT}(?:diagnose|identify|comply|fulfil|discuss|engage|make|access|open|read|recommend|support|comment|do|perform)
    {_CANNOT}(?:review|look|be used|continue|respond|complete)
    i (?:refuse|decline) | against (?:my|the) (?:policy|guidelines) | as an ai
    i(?: a|')m not (?:qualified|allowed|permitted|licensed|comfortable|a (?:doctor|medical|physician|healthcare))
    (?:do not|don't) have the (?:\w+ )?(?:ability|capability|capacity)
    no image (?:was|is|has been) (?:provided|attached|given|uploaded) | without the image
    kann (?:\w+ ){{0,4}}(?:nicht|keine)
    keine (?:medizinische|ärztliche)\w* (?:auskunft|beratung|diagnose|bewertung) | je ne peux pas | no puedo
    non posso | não posso | не могу
    (?:[无無]法|不能)(?:提供|协助|回答|帮助|分析|给出|查看|協助|幫助) | できません | できかねます | 할 수 없
    드릴 수 없
    """
)
"""Declines to answer, or denies the ability to."""

LATIN = frozenset(
    re.findall(
        r"\w+",
        """
        acnes aeruginosa agalactiae albicans anthracis asteroides aureus avium baumannii botulinum burgdorferi
        burnetii canis cepacia cereus cholerae cloacae coli cruzi difficile diphtheriae donovani ducreyi elegans
        enterica enterocolitica epidermidis faecalis faecium falciparum flexneri fragilis fumigatus gattii glabrata
        gondii gonorrhoeae granulosus haematobium henselae histolytica hominis immitis influenzae intracellulare
        israelii jejuni krusei lamblia leprae lumbricoides malariae maltophilia mansoni meningitidis mirabilis
        monocytogenes multilocularis neoformans niger ovale pallidum perfringens pertussis pestis pneumoniae
        psittaci pylori pyogenes saginata saprophyticus schenckii solium sonnei stercoralis tetani trachomatis
        trichiura tuberculosis typhi vaginalis vermicularis vivax vulnificus axillaris basilaris brachialis carotis
        cava cerebri cystica femoralis gastrica hepatica iliaca ischiadicus jugularis lienalis lusoria medianus
        meningea mesenterica opticus peronea poplitea portae pulmonalis radialis renalis saphena subclavia suralis
        thoracica tibialis ulnaris vagus vertebralis
        """,
    )
)
"""Second words of species, arteries, veins and nerves, which a letter abbreviates: "E. coli", "A. carotis"."""
