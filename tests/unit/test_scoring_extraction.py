"""Reading options out of free text: a corpus of phrasings, laws, hostile input, and answers of real models."""

import json
import re
import string
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.scoring import Reading, mediconfusion_rule, read_options
from medvqa.scoring.text import HEAD, TAIL
from support.laws import examples

MEDICONFUSION = Path(__file__).parents[3] / "shared" / "reference" / "mediconfusion"

# Option sets, and what is read of responses to them: a letter, or - for unparsed, refused, abstained.
# ⏎ is a line break.
LESION = {
    "A": "melanoma",
    "B": "nevus",
    "C": "basal cell carcinoma",
    "D": "seborrheic keratosis",
    "E": "vascular lesion",
}
LUNG = {"A": "normal", "B": "abnormal"}
BLEED = {"A": "hemorrhage", "B": "no hemorrhage"}
CHEST = {"A": "pneumonia", "B": "pleural effusion", "C": "pneumothorax", "D": "cannot be determined"}
CELL = {
    "A": "cytosol",
    "B": "actin filaments",
    "C": "vesicles",
    "D": "microtubules",
    "E": "plasma membrane",
    "F": "endoplasmic reticulum",
}
YESNO = {"A": "yes", "B": "no"}
GRADE = {
    "A": "grade 4 (severe)",
    "B": "grade 0 (healthy knee image)",
    "C": "grade 3 (moderate)",
    "D": "grade 1 (doubtful)",
}
SIZE = {"A": "<5 mm", "B": ">5 mm"}
LETTERS = {"A": "B", "B": "A"}
TWINS = {"A": "cyst", "B": "cyst", "C": "abscess"}
VITAMIN = {"A": "Vitamin B", "B": "Vitamin C", "C": "Hepatitis A"}
COUNT = {"A": "1", "B": "2", "C": "3"}
COMBINED = {"A": "edema", "B": "erosion", "C": "A and B", "D": "none of the above"}
EMPTY = {"A": "", "B": "", "C": "cyst"}
ORGAN = {"A": "liver", "B": "spleen", "C": "left kidney", "D": "kidney", "E": "none"}
SIDE = {"A": "left", "B": "right"}
BLOOD = {"A": "A", "B": "B", "C": "AB", "D": "O"}
STANFORD = {"A": "Type A dissection", "B": "Type B dissection"}
CHINESE = {"A": "肺炎", "B": "无出血", "C": "出血", "D": "气胸"}

SINGLE = {
    "letters alone": (
        LESION,
        r"""
B         B
B         b
B         B.
B         B)
B         (B)
B         (b)
B         [B]
B         [[B]]
B         {B}
B         <B>
B         【B】
B         「B」
B         B:
B         b.
B         "B"
B         'B'
B         “B”
B         **B**
B         **B**.
B         __B__
B         _B_
B         `B`
B         # B
B         - B
B         > B
B         ```⏎B⏎```
B         <b>B</b>
B         $B$
B         Ｂ
B         （Ｂ）
B         Ⓑ
B         𝐁
B         B!
-         F
-         Z
-         .
-         AB
-         A B
""",
    ),
    "letters with their text": (
        LESION,
        r"""
B         B. nevus
B         B) nevus
B         B: nevus
B         B - nevus
B         B nevus
B         (B) Nevus
B         b) nevus
B         B.nevus
B         B (nevus)
B         nevus (B)
B         B, nevus
B         **B. Nevus**
B         **B.** Nevus
B         B⏎nevus
C         C. Basal Cell Carcinoma.
C         C. Basal-cell carcinoma (BCC)
B         Option B
B         option b
B         Option B: nevus
B         choice (B)
B         Choice B.
B         Letter B
B         Answer B
B         Option (B) nevus
-         A. nevus
-         A) nevus
-         (A) nevus
-         nevus (A)
-         Answer: A. nevus
-         The correct answer is C. melanoma.
-         Option D: vascular lesion
""",
    ),
    "text alone": (
        LESION,
        r"""
B         nevus
B         Nevus.
B         NEVUS
B         *nevus*
B         A nevus
B         The nevus
B         This is a nevus.
B         This is A nevus
C         It is a basal cell⏎carcinoma.
D         The lesion is most consistent with seborrheic keratosis.
E         The image shows a vascular lesion on the cheek.
A         The picture suggests melanoma rather than nevus.
B         This is not a melanoma. It is a nevus.
-         There is no sign of melanoma.
-         melanoma or nevus
-         Both melanoma and nevus are possible.
-         This is a melanocytic lesion.
-         melanomas
-         Could it be a nevus?
A         The lesion has features of a nevus, but the diagnosis is melanoma.
-         melanoma, nevus, basal cell carcinoma, seborrheic keratosis, vascular lesion
""",
    ),
    "statements": (
        LESION,
        r"""
B         Answer: B
B         answer: b
B         ANSWER: B
B         Answer:B
B         Answer - B
B         Answer = B
B         Answer -> B
B         Answer: (B)
B         Answer: **B**
B         **Answer:** B
B         **Answer: B**
B         Answer:⏎⏎B
B         ## Answer⏎⏎B
B         Ans: B
B         The answer is B
B         The answer is (B).
B         The answer is: B. nevus
B         The answer is option B.
B         The answer is nevus.
B         The answer is nevus (B).
E         The correct answer is E because the vessels are dilated.
E         The correct answer is **E**, because the vessels are dilated.
D         The correct option is D
C         Correct: C
C         Correct answer: C
B         The best choice would be B.
B         The most appropriate answer is⏎⏎B. nevus⏎⏎The borders are regular.
B         The best match for the findings is:⏎⏎B. nevus
A         The most likely option among the provided choices is : A. melanoma
B         My guess is B
B         My answer would be B.
B         I'd go with B
B         I'd go with B.
B         I would choose option B.
B         I choose (B) because the border is regular.
B         I think it is B
B         I believe the answer is B.
B         I'd say B
C         I am leaning towards C
B         Probably B
B         It's B.
D         It must be D
B         So the answer is B.
B         Hence, B.
B         Therefore B is the correct answer.
B         B is correct.
B         B is the answer
B         B is the most likely diagnosis.
B         Option B is correct.
B         Option B best matches the picture.
D         Given the options provided, D. seborrheic keratosis is the most appropriate answer to describe it.
B         B, because the border is regular
B         B because the border is regular
B         B - the border is regular
B         B. The border is regular. A melanoma would be asymmetric.
B         B⏎⏎The border is regular.
B         B⏎Explanation: A is wrong because the border is regular.
B         Diagnosis: nevus
A         The final diagnosis is melanoma.
-         The answer is F.
-         Answer: none
-         The answer is a benign lesion.
-         Answer: A benign lesion
""",
    ),
    "forms made for machines": (
        LESION,
        r"""
C         \boxed{C}
C         \boxed{\text{C}}
C         $\boxed{C}$
C         \[\boxed{\mathrm{C}}\]
C         The answer is $\boxed{\textbf{(C)}}$.
C         \boxed{\text{C. basal cell carcinoma}}
B         \boxed{nevus}
B         {"answer": "B"}
B         {'answer': 'B'}
B         {"answer":"(B)"}
B         {"answer": "nevus"}
B         ```json⏎{"answer": "B", "reason": "A is too dark"}⏎```
B         {"reasoning": "A is possible, C is likely", "final_answer": "B"}
B         {"answer": ["B"]}
B         {"choice": "B. nevus"}
C         <answer>C</answer>
C         <answer>⏎C⏎</answer>
C         <answer>C. basal cell carcinoma</answer>
C         <answer>The answer is C</answer>
C         <answer>C
C         It looks like A at first. <answer>C</answer>
C         <think>A is likely. The answer is A.</think><answer>C</answer>
-         {"A": 0.1, "B": 0.9}
-         <answer></answer>
-         \boxed{F}
-         \boxed{A} \boxed{B}
""",
    ),
    "reasoning first": (
        LESION,
        r"""
B         <think>Maybe A. The answer is A? No.</think>⏎B
B         Maybe A. The answer is A.</think>B
-         <think>Maybe A. The answer is A.
B         <thinking>A</thinking>⏎⏎The answer is B.
B         <think></think>B
B         The lesion is symmetric and evenly coloured. A melanoma would have irregular borders.⏎⏎Final answer: B
C         Let's think step by step. Option A would be dark. Option C would be pearly.⏎⏎Therefore, the answer is C.
B         A. melanoma - irregular, no.⏎B. nevus - regular, yes.⏎C. basal cell carcinoma - pearly, no.⏎⏎Answer: B
A         The correct answer is A. melanoma.⏎⏎The other options are incorrect:⏎- B. nevus:
          regular⏎- C. Basal cell carcinoma: pearly⏎- D. Seborrheic keratosis: waxy
C         The most accurate answer choice is:⏎⏎C. basal cell carcinoma⏎⏎The other options do not
          fit:⏎⏎A. Melanoma would be dark.⏎⏎B. The nevus is regular.⏎⏎D. Seborrheic keratosis is waxy.
B         The border is regular, which is typical.⏎⏎B
B         The border is regular, which is typical. **B**
D         It is highlighting an area of skin. Given the place it is most indicative of:⏎⏎D.
          seborrheic keratosis⏎⏎Seborrheic keratosis is benign.
B         Step 1: colour. Step 2: border.⏎### Final Answer⏎B
B         Based on the image, this appears to be a nevus. It goes beyond what is seen in seborrheic
          keratosis. Therefore, of the options provided, B. nevus best matches the picture.
""",
    ),
    "corrections and elimination": (
        LESION,
        r"""
C         B. Wait, no, actually C
C         B. Wait, no, actually C.
B         A... no, B
B         The answer is A. Wait, let me reconsider. The border is regular, so the answer is B.
B         Answer: A⏎Correction: B
C         I first thought A, but it's C.
C         The answer is A. On second thought, the answer is C.
D         Sorry, I meant D.
D         Initially the answer is A. However, the final answer is D.
C         not A but C
C         Not A, but C.
C         It is not A but C.
C         The answer is not A but C.
B         The answer is B, not C.
B         B rather than C
B         B, not A
C         A, B and D are incorrect, so C
C         A, B, D and E can be ruled out, so the answer is C.
C         A is wrong. B is wrong. D and E are wrong. C is correct.
C         It can't be A or B, so it's C.
C         Between A and C, I choose C.
B         A: incorrect. B: correct. C: incorrect.
B         A ✗ B ✓ C ✗
-         B. Wait, no.
-         A is wrong. B is wrong.
-         It is not B
-         Not B.
-         The answer is not B.
-         The correct answer isn't B
-         B is incorrect.
-         Option B is not correct.
-         I don't think it's B.
-         I would not choose B.
-         Anything but B.
-         neither A nor B
-         None of A, B, C
-         The answer is B. B is incorrect.
-         If the border were irregular, the answer would be A.
A         If I had to choose, the answer would be A.
B         There is no doubt that the answer is B.
""",
    ),
    "two answers": (
        LESION,
        r"""
-         B and D
-         A,C
-         A or B
-         A. or B.
-         A. or B. or C. or D.
-         A. or maybe B.
B         B. and not A.
-         Either A or C.
-         A/B
-         A⏎B
-         The answer is A and C.
-         The answer is A or C.
-         B, C, and D are the correct options.
-         The answer is A. The answer is B.
-         Answer: A⏎Answer: B
-         The answer is A, but B is also correct.
-         A is correct. B is correct.
-         A. melanoma⏎B. nevus
-         All of the above
-         A. melanoma B. nevus C. basal cell carcinoma D. seborrheic keratosis E. vascular lesion
-         A. melanoma⏎B. nevus⏎C. basal cell carcinoma⏎D. seborrheic keratosis⏎E. vascular lesion
B         A. melanoma⏎B. nevus⏎C. basal cell carcinoma⏎D. seborrheic keratosis⏎E. vascular lesion⏎⏎Answer: B
B         A. melanoma⏎B. nevus⏎C. basal cell carcinoma⏎D. seborrheic keratosis⏎E. vascular lesion⏎⏎B
-         The options are A, B, C, D and E.
D         The answer choices are A, B, C, D, and E. The answer is D.
B         Question: What is it?⏎Options:⏎A. melanoma⏎B. nevus⏎Answer: B
""",
    ),
    "more of the same": (
        LESION,
        r"""
B         I'm confident that the answer is B.
C         Looking at the image, I would say the answer is (C) basal cell carcinoma.
B         Answer: B. nevus⏎⏎Explanation: A. melanoma would show irregular borders. C. basal cell
          carcinoma would be pearly.
B         Final Answer: The final answer is $\boxed{B}$. I hope it is correct.
B         Out of the given options, nevus (B) is the best fit.
B         Considering A, B and C, the one that fits is B.
B         A is possible but B is more likely.
B         I think the answer could be A. However B is more likely
B         It may be A, though B is more likely.
C         The answer might be A, but C fits better.
-         It might be A, and there is C.
-         The answer may be A. C remains.
A         Both A and B could be right, but A is the best.
B         The answer could be A or B, but I'd go with B.
B         Option A: melanoma - incorrect⏎Option B: nevus - correct⏎Option C: basal cell carcinoma - incorrect
B         Let's evaluate each option:⏎A. Melanoma: asymmetric, not seen.⏎B. Nevus: symmetric,
          seen.⏎So the answer is B.
-         Let's evaluate each option:⏎A. Melanoma: asymmetric, not seen.⏎B. Nevus: symmetric, seen.
-         I am torn between A and B.
B         Could be B.
B         I am not certain. The answer might be B.
-         B?
-         As seen in option A, the border is irregular; option B is regular.
-         (A) shows the lesion before treatment
-         Melanoma would be irregular.
-         It is larger than a nevus.
-         The patient has a history of melanoma.
-         A melanoma is a tumor that arises from pigment cells.
-         The correct answer is not listed.
-         None of the options is correct.
D         Let me think. A: no. B: no. C: no. D: yes.
D         D is the only option that fits.
D         Sure! The answer is D.
D         Sure, D
D         ASSISTANT: D
D         ###Response: D
D         D</s>
D         <s> D<|im_end|>
D         D⏎⏎Question: What is shown?⏎Answer: A
D         Human: what is it?⏎Assistant: D
D         It should be D.
D         After ruling out A, B, C, E, we are left with D.
-         All but D are wrong.
-         B > A
-         A: 20%⏎B: 80%
B         The lesion is not a melanoma (A), but rather a nevus (B).
-         Child-Pugh: B
-         vs. B
A         A (or possibly B)
-         The answer is E. coli
-         vitamin A, B and C
-         A B C D E
-         A. B. C. D. E.
-         A is for apple
A         Correct: A. melanoma. Incorrect: B. nevus
B         Incorrect: A, C. Correct: B
B         The answer is A... scratch that, B.
B         A. No wait, B.
B         [ANSWER]B[/ANSWER]
A         Correct answer is A; B is wrong
A         Answer: A, B is wrong
A         --> A
A         Ans A
A         The image is not normal. The signs suggest melanoma.
-         Options A and C are both possible.
-         B⏎⏎The answer is C.
-         Answer: A⏎Answer: B. So it is.
B         If you look at the border, the answer is B.
refused   Unable to read; the nevus is not in focus.
B         (R) arm with a nevus
-         F. nevus
-         Answer: F
""",
    ),
    "letters that are no options": (
        LESION,
        r"""
-         I see A and then
-         A patient with a dark spot
-         A dark spot is seen.
-         This shows A round spot
-         It is A benign lesion
-         Vitamin B
-         vitamin B deficiency
-         hepatitis C
-         This is hepatitis C.
-         Hepatitis C is the most likely cause.
-         T2 A
-         type A
-         This is a type A lesion.
-         Blood type B
-         Group B streptococcus
-         B-cell lymphoma
-         E. coli
-         C. difficile
-         D-dimer is raised
-         Figure A shows a spot
-         See panel (B) of the picture
-         The temperature was 37 °C
-         e.g. a spot
-         U.S.A.
-         C++
-         I think this looks benign
-         Stage IV
A         A
A         a
""",
    ),
    "refusals and abstentions": (
        LESION,
        r"""
refused   I cannot assist with that.
refused   I can't help with this request.
refused   I'm sorry, but I can't provide medical advice.
refused   I’m sorry, but I can’t assist with that.
refused   I'm unable to view or interpret images.
refused   I'm unable to interpret medical images. Please consult a medical professional for an accurate assessment.
refused   As an AI, I am not able to diagnose skin lesions such as melanoma.
-         The correct answer is a
refused   I apologize, but I cannot provide the answer. Consult a healthcare professional.
refused   I won't answer medical questions.
refused   No image was provided.
refused   抱歉，我无法提供医疗建议。
refused   Lo siento, no puedo ayudar con eso.
refused   Désolé, je ne peux pas répondre à cette question.
refused   Es tut mir leid, aber ich kann dabei nicht helfen.
refused   申し訳ありませんが、お答えできません。
abstained This cannot be determined from this image.
abstained It cannot be determined whether this is a melanoma or a nevus.
abstained I am unable to determine the answer.
abstained Unable to determine
abstained It is impossible to diagnose medical conditions from images alone.
abstained This image does not contain enough information to tell.
abstained There is insufficient information to answer.
abstained I don't know.
abstained I'm sorry, but I can't determine this from the image.
abstained It could be (A) or (B), but it is not possible to say which.
abstained 根据图像无法确定。
abstained It does not show enough to choose between:⏎⏎A. melanoma⏎⏎B. nevus⏎⏎Therefore, it is not
          feasible to say which.
B         I can't give medical advice, but the answer is B
B         I can't give medical advice. B
B         I'm not a doctor, but I'd go with B.
B         I cannot diagnose, but this appears to be a nevus.
B         B. Please note that I cannot provide medical advice.
B         The answer is B. I cannot be certain.
B         While it is not possible to be sure, the most likely answer is B.
""",
    ),
    "other languages": (
        LESION,
        r"""
B         答案：B
B         答案：Ｂ
B         答案是B。
B         正确答案为B
B         选B
B         故选B。
B         选项B是正确的
C         不是A，而是C
B         B是正确答案。
C         A、B和D都是错误的，所以C
B         答えはBです。
B         答え：B
B         正解はBです
B         정답: B
B         정답은 B입니다.
B         답: B
B         Antwort: B
B         Die richtige Antwort ist B.
B         Réponse : B
B         La bonne réponse est B.
B         La réponse correcte est la B.
B         Respuesta: B
B         La respuesta correcta es B.
B         La respuesta correcta es la opción B.
B         Risposta: B
B         La risposta corretta è B.
B         Resposta: B
B         A resposta correta é B.
B         A resposta correta é a letra B.
B         Ответ: B
B         Правильный ответ: B
B         الإجابة: B
B         उत्तर: B
B         Đáp án: B
B         Jawaban: B
B         Cevap: B
B         Odpowiedź: B
B         Antwoord: B
-         Die Antwort ist nicht B.
-         La respuesta no es B.
-         不是B
-         B是错误的
""",
    ),
    "more languages": (
        LESION,
        r"""
B         我选择B选项
B         我认为是B
B         最可能的诊断是B
C         根据图像，选项C最合适
B         A选项不正确，B选项正确
B         Bを選びます
B         B번이 정답입니다
B         Je choisis B.
B         Ich wähle B.
B         B está correta.
B         C'est B.
A         La réponse est A et non B.
""",
    ),
    "options that contain one another": (
        LUNG,
        r"""
A         normal
B         abnormal
B         The lung is abnormal.
A         The lung is normal.
-         This is not normal.
-         The lung is not abnormal
-         No abnormal findings
A         A normal lung
-         A. Abnormal
-         normal or abnormal
B         The findings are abnormal, so B.
""",
    ),
    "options that negate one another": (
        BLEED,
        r"""
A         hemorrhage
B         no hemorrhage
B         No hemorrhage.
B         There is no hemorrhage.
A         There is hemorrhage.
-         There is no evidence of hemorrhage.
-         without hemorrhage
-         A. no hemorrhage
B         B. no hemorrhage
A         There is hemorrhage, not no hemorrhage.
""",
    ),
    "an option that says that it cannot be known": (
        CHEST,
        r"""
D         cannot be determined
D         This cannot be determined.
D         D. Cannot be determined
D         D
D         The answer cannot be determined from this image.
abstained I am unable to determine that.
B         pleural effusion
abstained The marked region suggests pneumonia, but I cannot tell.
""",
    ),
    "short answers that are common words": (
        YESNO,
        r"""
A         yes
B         No.
A         Yes, there is.
B         No, there is no mass.
-         There is no mass.
B         The answer is no.
B         B. No
-         A. No
-         The heart is abnormal.
-         I know
""",
    ),
    "texts with numbers and letters": (
        GRADE,
        r"""
C         Grade 3 (moderate)
C         grade 3 moderate
C         C. grade 3 (moderate)
-         grade 3
A         A. grade 4
-         The knee is Grade B
""",
    ),
    "texts of symbols": (
        SIZE,
        r"""
A         <5 mm
B         > 5 mm
-         It is >5mm
B         B. >5 mm
-         5 mm
""",
    ),
    "texts that look like letters": (
        LETTERS,
        r"""
A         A. B
B         B. A
A         Answer: A. B
A         A
B         B
B         Answer: B
-         The blood group is B.
""",
    ),
    "texts that repeat": (
        TWINS,
        r"""
-         cyst
A         A. cyst
B         B. cyst
C         abscess
-         C. cyst
""",
    ),
    "texts with letters in them": (
        VITAMIN,
        r"""
A         Vitamin B
B         vitamin c
C         Hepatitis A
A         A. Vitamin B
B         B
-         B. Vitamin B
B         The answer is Vitamin C.
""",
    ),
    "texts that are numbers": (
        COUNT,
        r"""
B         2
B         B. 2
B         There are 2 lesions.
-         The lesion measures 2 cm.
C         The answer is 3.
B         B
""",
    ),
    "texts that name letters": (
        COMBINED,
        r"""
C         A and B
C         C
C         C. A and B
D         None of the above
A         edema
""",
    ),
    "empty texts": (
        EMPTY,
        r"""
A         A
B         B.
C         cyst
C         A cyst
""",
    ),
    "places": (
        ORGAN,
        r"""
A         The highlighted organ is the liver.
A         The organ adjacent to the spleen is the liver.
B         The liver lies next to the spleen, and the marked region is the spleen.
-         The marked structure is located inferior to the liver.
-         None of the organs is visible.
E         None.
-         C. kidney
-         D. left kidney
C         C. left kidney
C         The answer is C, the left kidney, not D.
C         It's the left kidney (C)
B         Thinking: A is liver... The region is dark. So I'd answer B.
B         As a result, B
-         The correct answer would be B if the organ were smaller.
-         Choose from A, B, C, D or E.
-         A: B
B         ✅ B
B         ❌ A⏎✅ B
B         答:B
A         ("A": liver
A         A") liver
-         B⏎⏎C
B         Option B is the answer, option A is not.
""",
    ),
    "sides": (
        SIDE,
        r"""
A         left
B         The right lung
-         left and right
-         That's right, it's the left.
""",
    ),
    "blood groups": (
        BLOOD,
        r"""
A         A
C         AB
C         C
D         D. O
D         O
C         The blood type is AB.
-         The blood type is A.
-         A. B
""",
    ),
    "types": (
        STANFORD,
        r"""
B         Type B dissection
A         This is a type A dissection.
-         Stanford type B
-         A. Type B dissection
B         Answer: B (Type B dissection)
""",
    ),
    "texts without spaces": (
        CHINESE,
        r"""
A         肺炎
A         这是肺炎。
A         A. 肺炎
A         A.肺炎
B         无出血
C         图中有出血
-         没有气胸
-         A. 气胸
""",
    ),
}

# The same for questions with any number of answers, about CELL.
MULTIPLE = r"""
A         A
AC        A,C
AC        A, C
AC        C, A
AC        A and C
AC        A & C
AC        A; C
AC        A/C
AC        A + C
AC        A C
AC        AC
ACD       A, C, and D
AC        A、C
AC        Ａ，Ｃ
AC        A和C
AC        A und C
AC        (A), (C)
AC        (A) and (C)
AC        [A, C]
AC        A⏎C
AC        - A⏎- C
AC        **A, C**
AC        **A**, **C**
AC        a, c
ABCDEF    A,B,C,D,E,F
AC        Answer: A,C
AC        Answer: AC
AC        Answers: A and C
ACD       The correct answers are A, C and D.
AC        The correct options are A and C because both are visible.
AC        A and C are correct.
AC        Both A and C are correct.
AC        A is correct. B is incorrect. C is correct.
AC        A: correct, B: incorrect, C: correct
AC        I would select A and C.
AC        A. cytosol, C. vesicles
AC        A. cytosol⏎C. vesicles
AC        A. Cytosol: visible as a haze.⏎C. Vesicles: visible as dots.
AC        cytosol, vesicles
AC        cytosol and vesicles
AC        cytosol⏎vesicles
AC        The correct answers are cytosol and vesicles.
AC        \boxed{A, C}
AC        \boxed{\text{A, C}}
AC        \boxed{AC}
AC        {"answer": ["A", "C"]}
AC        {"answers": "A,C"}
AC        <answer>A,C</answer>
AC        <think>A, B, C?</think>A,C
AC        答案：A、C
AC        正确答案是A和C。
AC        B and D are incorrect, so A and C
AC        A, C⏎⏎A. Cytosol is visible.⏎B. Actin filaments are not visible.
AC        A, B. Wait, no, actually A and C.
CD        not A but C and D
D         D
D         microtubules
-         A or C
-         All of the above
-         all options
-         none
-         None of the above
-         Z
-         A, Z
-         CAB driver
-         A. actin filaments
-         A. cytosol⏎B. actin filaments⏎C. vesicles⏎D. microtubules⏎E. plasma membrane⏎F. endoplasmic reticulum
BD        A. cytosol⏎B. actin filaments⏎C. vesicles⏎D. microtubules⏎E. plasma membrane⏎F.
          endoplasmic reticulum⏎⏎Answer: B, D
-         Answer: A, C⏎Answer: B, D
-         The answer is A and C. A is incorrect.
-         Vitamins A and B
-         hepatitis A and B are viral
refused   I cannot assist with that.
abstained It cannot be determined from this image.
AC        A and also C
AC        A, C (and possibly D)
AC        A, C, but not D
-         All except B
AC        Only A and C
AC        both A and C
AC        A|C
-         A - C
AC        1. A⏎2. C
AC        1) A. cytosol⏎2) C. vesicles
AC        A (cytosol), C (vesicles)
AC        cytosol (A), vesicles (C)
AC        The image shows cytosol and vesicles.
-         The image shows cytosol. It also shows vesicles.
AC        Answer: A. cytosol, vesicles
AC        Answer: A. cytosol⏎C. vesicles
AC        The correct options are:⏎⏎- A. cytosol⏎- C. vesicles⏎⏎Explanation: B is not visible.
ACE       ACE
-         CA
-         FACE
-         A is visible, C is visible, B is not
AC        A - Yes, B - No, C - Yes
AC        Final Answer: [A, C]
AC        选AC
AC        A、C都对
-         A, G
-         A and/or C
-         cytosol or vesicles
"""


GERMAN = {"A": "Lungenentzündung", "B": "Pleuraerguss", "C": "Pneumothorax", "D": "Normalbefund"}
SKIN = {"A": "papule", "B": "plaque", "C": "scale", "D": "crust"}
RETINA = {"A": "no DR", "B": "mild NPDR", "C": "moderate NPDR", "D": "severe NPDR", "E": "proliferative DR"}
BODY = {"A": "heart", "B": "spleen", "C": "liver", "D": "aorta"}
THORAX = {"A": "pneumonia", "B": "pleural effusion", "C": "pneumothorax", "D": "normal"}

MENTIONED = [
    pytest.param(options, response, expected, multiple, id=f"{response[:50]!r}")
    for options, multiple, table in (
        (SKIN, True, "AB  1. papule⏎2. plaque"),
        (SKIN, True, "AC  papule with overlying scale, but no crust"),
        (SKIN, True, "AC  - [x] papule⏎- [ ] plaque⏎- [x] scale⏎- [ ] crust"),
        (SKIN, True, "AC  | papule | yes |⏎| plaque | no |⏎| scale | yes |⏎| crust | no |"),
        (SKIN, False, "-  1. papule⏎2. plaque"),
        (BODY, False, "-  The marked structure lies below the spleen."),
        (BODY, False, "-  It arises from the heart."),
        (THORAX, False, "-  suspected pneumonia"),
        (THORAX, False, "-  History: pneumonia last year"),
        (THORAX, False, "B  - [ ] pneumonia⏎- [x] pleural effusion⏎- [ ] pneumothorax"),
        (THORAX, False, "B  | A | ✗ |⏎| B | ✓ |⏎| C | ✗ |"),
        (THORAX, False, "C  <CONCLUSION> C"),
        (THORAX, False, "D  None of the options A, B or C fit; D."),
        (GERMAN, False, "B  Ein Normalbefund liegt nicht vor; Antwort B"),
        (COUNT, False, "C  There are 3 cells"),
        (RETINA, False, "C  no proliferative DR; moderate NPDR"),
    )
    for expected, response in [table.replace("⏎", "\n").split("  ", 1)]
]


@pytest.mark.parametrize(("options", "response", "expected", "multiple"), MENTIONED)
def test_an_option_is_chosen_only_where_it_is_asserted_of_the_image(
    options: dict[str, str], response: str, expected: str, multiple: bool
) -> None:
    check(read_options(response, options, multiple=multiple), expected)


def parts(text: str) -> list[str]:
    return text.replace("⏎", "\n").split("|")


def cases(table: str) -> list[tuple[str, str]]:
    """(response, expected) of each line; a line that starts with spaces goes on with the one before."""
    pairs = (line.split(maxsplit=1) for line in re.sub(r"\n +", " ", table.strip()).splitlines())
    return [(response.replace("⏎", "\n"), expected) for expected, response in pairs]


def check(reading: Reading, expected: str) -> None:
    statuses = {"-": "unparsed", "refused": "refused", "abstained": "abstained"}
    assert (reading.status, "".join(reading.letters)) == (
        (statuses[expected], "") if expected in statuses else ("read", expected)
    ), reading.why
    assert reading.why
    assert "\n" not in reading.why


@pytest.mark.parametrize(
    ("options", "response", "expected"),
    [
        pytest.param(options, *case, id=f"{name}: {case[0][-40:]!r}")
        for name, (options, table) in SINGLE.items()
        for case in cases(table)
    ],
)
def test_one_option_is_read(options: dict[str, str], response: str, expected: str) -> None:
    check(read_options(response, options), expected)


@pytest.mark.parametrize(("response", "expected"), cases(MULTIPLE))
def test_several_options_are_read(response: str, expected: str) -> None:
    check(read_options(response, CELL, multiple=True), expected)


@pytest.mark.parametrize("multiple", [False, True])
def test_space_and_invisible_characters_do_not_count(multiple: bool) -> None:
    for response in ("", "   \n", "\u200b\ufeff"):
        check(read_options(response, LESION, multiple=multiple), "-")
    for response in (" B \n", "\ufeffB\u200b", "\tB\r\n"):
        check(read_options(response, LESION, multiple=multiple), "B")


def test_letters_come_in_the_order_of_the_options() -> None:
    options = dict(reversed(CELL.items()))
    assert read_options("A, C, B", options, multiple=True).letters == ("C", "B", "A")


def test_why_names_the_rule_and_the_words() -> None:
    assert read_options("Hm. So the answer is B.", LESION).why == 'answer: "Hm. So the answer is B."'
    assert read_options("A and B", LESION).why == "several answers: A/B"
    assert read_options("A. nevus", LESION).why == "a letter with another option's text: A/B"
    assert read_options("I can't help.", LESION).why == 'says "can\'t help."'
    assert read_options("<think>B", LESION).why == "nothing but reasoning"


def test_only_the_ends_of_a_long_response_are_read() -> None:
    filler = "The border is regular. " * 3000
    assert len(filler) > HEAD + TAIL
    check(read_options(f"B. {filler}", LESION), "B")
    check(read_options(f"{filler}\nThe answer is B.", LESION), "B")
    check(read_options(f"{filler}The answer is B.{filler}", LESION), "-")
    check(read_options(f"<think>{filler}The answer is A.{filler}</think>The answer is B.", LESION), "B")
    # "not", cut off from what it denies, would leave an answer
    for length in range(HEAD - 12, HEAD + 4):
        check(read_options(f"{'x' * length} is not B{filler}", LESION), "-")
    for length in range(TAIL - 12, TAIL + 4):
        check(read_options(f"{filler}It is not B{' x' * (length // 2)}", LESION), "-")


def test_the_recorded_answers_of_a_real_model() -> None:
    """GPT-4o on MediConfusion: what the official cleaner reads is read alike, and what it does not is a refusal."""
    if not MEDICONFUSION.is_dir():
        pytest.skip(f"no {MEDICONFUSION}")
    questions = json.loads((MEDICONFUSION / "dataset.json").read_text())
    statuses: Counter[str] = Counter()
    for key, recorded in json.loads((MEDICONFUSION / "gpt4o_mc_predictions.json").read_text()).items():
        options = {letter: questions[key][f"option_{letter}"] for letter in "AB"}
        for image in ("im1", "im2"):
            response = recorded["answer"][image]["answer"]["full_answer"]
            reading = read_options(response, options)
            assert reading.letters == mediconfusion_rule(response, options).letters
            statuses[reading.status] += 1
    assert statuses == {"read": 332, "refused": 20}


# Laws.

LETTERS = st.sampled_from("ABCDEF")
WORDS = ("Melanoma", "Nevus", "Basal cell carcinoma", "Cyst", "Abscess", "No abscess", "Wart")
FRAGMENTS = parts(
    "The answer is |Answer: |not | but | and | or |, |. |⏎|⏎⏎|) |(|)|So |I think | is correct| is wrong|However, |"
    "Wait, no, |option |<answer>|</answer>|**|?|the |it is |I cannot tell. |I can't help. |vitamin |答案是|选|"
    "Final answer: |no |if |<think>|</think>"
)


@st.composite
def questions(draw: st.DrawFn) -> dict[str, str]:
    texts = draw(st.lists(st.sampled_from(WORDS), min_size=2, max_size=6))
    return dict(zip(string.ascii_uppercase, texts, strict=False))


@given(st.data(), questions(), st.booleans())
def test_relabelling_options_permutes_what_is_read(
    data: st.DataObject, options: dict[str, str], multiple: bool
) -> None:
    letters = list(options)
    renamed = dict(zip(letters, data.draw(st.permutations(letters)), strict=True))
    pieces = data.draw(st.lists(st.sampled_from([*FRAGMENTS, *letters, *WORDS]), max_size=12))
    # A letter that touches others is no letter: keep them apart.
    response = "".join(f" {piece} " if piece in options or piece in WORDS else piece for piece in pieces)
    relabelled = "".join(
        f" {renamed.get(piece, piece)} " if piece in options or piece in WORDS else piece for piece in pieces
    )
    new_options = {renamed[letter]: text for letter, text in options.items()}
    before = read_options(response, options, multiple=multiple)
    after = read_options(relabelled, new_options, multiple=multiple)
    assert {renamed[letter] for letter in before.letters} == set(after.letters), (before, after)
    assert before.status == after.status


TEMPLATES = parts(
    "{}|({})|{}.|{})|Answer: {}|The answer is {}.|The correct answer is {} because it fits.|I choose {}|Option {}|"
    "{} is correct.|not {} but {}|{} and {}|I cannot tell.|<think>{}</think>{}|It is not {}|选{}|{}, {}|"
    "{}. Wait, no, actually {}|{}⏎⏎The border is regular.|Final answer: {}"
)
MARKDOWN = ("**{}**", "*{}*", "__{}__", "_{}_", "`{}`", "***{}***", "**_{}_**")
BLOCKS = (*MARKDOWN, "# {}", "### {}", "> {}", "- {}", "* {}", "```\n{}\n```", "  {}  \n", "<b>{}</b>", "<p>{}</p>")


@given(st.sampled_from(TEMPLATES), st.lists(LETTERS, min_size=2, max_size=2), st.sampled_from(MARKDOWN), st.booleans())
def test_markdown_around_letters_changes_nothing(template: str, letters: list[str], mark: str, multiple: bool) -> None:
    plain = read_options(template.format(*letters), CELL, multiple=multiple)
    marked = read_options(template.format(*map(mark.format, letters)), CELL, multiple=multiple)
    assert (marked.letters, marked.status) == (plain.letters, plain.status)


@given(st.sampled_from(TEMPLATES), st.lists(LETTERS, min_size=2, max_size=2), st.sampled_from(BLOCKS), st.booleans())
def test_markdown_around_the_whole_changes_nothing(
    template: str, letters: list[str], block: str, multiple: bool
) -> None:
    response = template.format(*letters)
    plain = read_options(response, CELL, multiple=multiple)
    marked = read_options(block.format(response), CELL, multiple=multiple)
    assert (marked.letters, marked.status) == (plain.letters, plain.status)


@given(
    st.one_of(st.text(), st.lists(st.sampled_from([*FRAGMENTS, *string.ascii_uppercase, *WORDS])).map("".join)),
    st.dictionaries(
        st.sampled_from(string.ascii_uppercase), st.one_of(st.text(max_size=20), LETTERS, st.sampled_from(WORDS))
    ),
    st.booleans(),
)
@examples(300)
def test_nothing_raises_and_only_options_are_read(response: str, options: dict[str, str], multiple: bool) -> None:
    reading = read_options(response, options, multiple=multiple)
    assert set(reading.letters) <= set(options)
    assert (reading.status == "read") == bool(reading.letters)
    assert multiple or len(reading.letters) <= 1
    assert list(reading.letters) == [letter for letter in options if letter in reading.letters]
    assert not re.search(r"[\n\ue000-\uf8ff]", reading.why)


HOSTILE = parts(
    "a|A |B x |B. |(B|(| |⏎|*|_|> |- A⏎|A⏎|A,|A and |'|\"|\t|<|[ |the answer is |answer |answer: B⏎|answer⏎|"
    "B is the most |B is correct. |so the |not A but |if |<think>|</think>|<think></think>|<answer>|<br |\\boxed{|"
    '\\boxed{B}|"answer": |{"answer": "B"}|"answer": [|nevus |no nevus, |wait, no |cannot |答案是|选B|Ｂ|'
    "\ufdfa|a\u0301|B⏎Question: |B? "
)


@pytest.mark.parametrize("size", [40_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("unit", HOSTILE, ids=repr)
def test_hostile_text_is_read_in_passing(unit: str, size: int) -> None:
    """Anything but linear time would show as a hang."""
    response = unit * (size // len(unit))
    options = BLEED | {"C": "nevus", "D": "no nevus"}
    for multiple in (False, True):
        assert set(read_options(response, options, multiple=multiple).letters) <= set(options)


@given(
    st.dictionaries(
        st.sampled_from("ABCDEFGHI"), st.from_regex(r"[a-z]{3,9}( [a-z]{3,9})?", fullmatch=True), min_size=1
    ),
    st.booleans(),
    st.data(),
)
def test_a_letter_alone_is_read_like_a_letter_with_space_around_it(
    options: dict[str, str], multiple: bool, data: st.DataObject
) -> None:
    letter = data.draw(st.sampled_from(sorted(options)))
    assert read_options(letter, options, multiple=multiple) == read_options(f" {letter}\n", options, multiple=multiple)


MENTIONED = [
    ("FINDINGS: The heart size is normal. There is a small pneumothorax.\nIMPRESSION: Pneumothorax.", "C"),
    ("Heart size is normal. There is a pleural effusion on the left.", "B"),
    ("normal heart size, small pneumothorax", "C"),
    ("This is a normal chest radiograph.", "D"),
    ("This is normal variant anatomy.", ""),
    ("A - unlikely\nB - most likely\nC - unlikely\nD - excluded", ""),
    ("Less likely: A", ""),
    ("The least likely option is A.", ""),
    ("It is less likely B.", ""),
    ("Highly unlikely: A. Highly likely: C.", "C"),
    ("I doubt that this is a pneumonia.", ""),
    ("There is no doubt that this is a pneumothorax.", "C"),
    ("There is little evidence of pneumonia.", ""),
    ("Pneumonia cleared.", ""),
    ("?pneumothorax", ""),
    ("Query pneumothorax", ""),
    ("Many would answer A.", ""),
    ("I would answer A.", "A"),
    ("A would be my guess if the patient had fever.", ""),
    ("A would be my guess.", "A"),
    ("A pneumonia it is not.", ""),
    ("A pneumonia would be denser, so C.", "C"),
    ("Se descarta pneumothorax.", ""),
    ("Pneumothorax ist unwahrscheinlich.", ""),
    ("Pneumothorax peu probable.", ""),
    ("Pneumothorax исключен.", ""),
    ("A (no), B (no), C (yes), D (no)", "C"),
    ("B (correct)", "B"),
    ("There's scarcely any pleural effusion.", ""),
    ("Pneumonia, now resolved.", ""),
    ("Ich bezweifle, dass es eine pneumonia ist.", ""),
    ("Es poco probable que sea pneumonia.", ""),
    ("The correct answer(s): C", "C"),
    ("Antwort A wäre falsch. Richtig ist C.", "C"),
    ("La réponse est donc la B.", "B"),
    ("B is out, A is out, D is out; only C remains.", "C"),
]


@pytest.mark.parametrize(("response", "letters"), MENTIONED)
def test_an_option_in_a_report_a_doubt_or_a_ranking_is_not_chosen(response: str, letters: str) -> None:
    chest = {"A": "pneumonia", "B": "pleural effusion", "C": "pneumothorax", "D": "normal"}
    assert "".join(read_options(response, chest).letters) == letters


OF_SOMEBODY_ELSE = [
    "The student chose A.",
    "My colleague thinks it's A.",
    "The resident wrote B.",
    "Someone claims the answer is A.",
    "The student's answer is A.",
    "According to the student the answer is A.",
    "The answer is A, said the student.",
    "Nobody would say the answer is A.",
    "His answer: B",
    "The textbook answer would be C.",
    "The previous answer was C.",
    "In the last case the answer was B.",
    "The correct answer to the previous question is A.",
    "The answer key of the previous question was A.",
    "Previously I said the answer is A.",
    "The answer used to be A.",
    "I almost chose A.",
    "I was about to pick A.",
    "I would have chosen A.",
    "A trap answer is B.",
    "The second best answer is C.",
    "The worst choice is C.",
    "It is doubtful that the answer is A.",
    "Example: The answer is B.",
    "You should respond like: Answer: C",
    "Format: 'Answer: A'",
]
OWN = [
    "Others picked A, I pick B.",
    "They say A; I say B.",
    "Others might pick A, but the answer is B.",
    "Most experts agree; the answer is B.",
    "My previous answer was wrong. The answer is B.",
    "The answer is almost certainly B.",
    "Since the user asked for one letter, the answer is B.",
    "In people with COPD, the answer is B.",
    "Compared with previous exams, the answer is B.",
    "The best answer for this question is B.",
    "Given his history, the answer is B.",
    "She presents with dyspnea, and the answer is B.",
    "He has fever, I think B.",
    "They show blunting, so the answer is B.",
    "The patient was about to undergo surgery; the answer is B.",
    "My colleagues and I would choose B.",
    "We chose B.",
    "I have chosen B.",
    "B is preferred over A.",
    "Pleural effusion is favored over pneumonia.",
    "Likely: B. Unlikely: A",
]


@pytest.mark.parametrize("response", OF_SOMEBODY_ELSE)
def test_an_answer_of_somebody_else_or_to_another_question_is_not_chosen(response: str) -> None:
    assert read_options(response, THORAX).status == "unparsed"


@pytest.mark.parametrize("response", OWN)
def test_an_answer_beside_those_of_others_is_chosen(response: str) -> None:
    assert read_options(response, THORAX).letters == ("B",)


@pytest.mark.parametrize(
    ("response", "letters"),
    [
        ("The arrow points to the spleen.", "B"),
        ("The tail of the pancreas points to the spleen.", ""),
        ("The bile produced by the liver.", ""),
        ("CT is preferred over MRI for acute hemorrhage.", ""),
        ("CT is indicated.", ""),
        ("MRI would be preferred, but this is CT.", "C"),
        ("The image was produced by CT.", "C"),
    ],
)
def test_a_direction_an_origin_and_a_recommendation_assert_nothing_of_the_image(response: str, letters: str) -> None:
    options = {"A": "liver", "B": "spleen", "C": "CT", "D": "MRI"}
    assert "".join(read_options(response, options).letters) == letters


@pytest.mark.parametrize(
    "response", ["A is plaque? No, papule.", "A (possible), B (definite), C (absent)", "Least likely: D. Likely: A, B."]
)
def test_contradicting_letters_comments_and_rankings_choose_no_set(response: str) -> None:
    assert read_options(response, SKIN, multiple=True).letters == ()


@pytest.mark.parametrize(
    ("response", "letters"),
    [("The heart size is normal.", "D"), ("The heart is normal in size.", ""), ("The bones are normal, too.", "")],
)
def test_a_normal_part_is_a_normal_image_only_where_nothing_else_is_said(response: str, letters: str) -> None:
    assert "".join(read_options(response, THORAX).letters) == letters


@pytest.mark.parametrize(
    ("response", "letters"),
    [("1. The lung is clear.", ""), ("1. There are two lesions.\n2. Therefore B.", "B"), ("1", "A"), ("1.", "A")],
)
def test_the_number_of_a_line_is_no_option(response: str, letters: str) -> None:
    assert "".join(read_options(response, {"A": "1", "B": "2", "C": "3"}).letters) == letters


@pytest.mark.parametrize(
    "response", ["1. There are", "A would be my guess", "Antwort A", "The least likely option is A"]
)
def test_a_cut_off_beginning_is_no_answer(response: str) -> None:
    assert read_options(response, {"A": "1", "B": "2", "C": "3"}, finished=False).letters == ()


def test_an_article_before_the_text_of_option_a_is_no_label() -> None:
    modes = {"A": "CT", "B": "MRI", "C": "ultrasound"}
    assert read_options("A CT scan shows it better, but the picture is an ultrasound image.", modes).letters != ("A",)
    assert read_options("A CT", modes).letters == read_options("A: CT scan", modes).letters == ("A",)


FLUID = {"A": "pneumothorax", "B": "pleural effusion", "C": "pericardial tamponade", "D": "nodule", "E": "mass"}


@pytest.mark.parametrize(
    ("response", "letters"),
    [
        ("B. effusion", ("B",)),
        ("**B. effusion.**", ("B",)),
        ("B. hydrothorax", ("B",)),
        ("B: hydrothorax", ("B",)),
        # Another option's text or word, and names that a letter abbreviates.
        ("B. nodule", ()),
        ("B. tamponade", ()),
        ("B. fragilis", ()),
        ("E. coli", ()),
        ("A. carotis", ()),
        # Not the whole response.
        ("The culture grew B. hydrothorax", ()),
        ("B. hydrothorax is likely", ()),
    ],
)
def test_a_letter_before_one_word_is_read_where_nothing_contradicts(response: str, letters: tuple[str, ...]) -> None:
    assert read_options(response, FLUID).letters == letters


def test_a_letter_before_one_word_may_go_on_if_it_was_cut_off() -> None:
    assert read_options("B. effu", FLUID, finished=False).letters == ()
