"""How people ask about numbers: templates with alternatives in brackets.

{e} an expression, {a} and {b} its numbers; {x} and {y} two numbers, {s} a row of numbers. UNSEEN_ ones are for the
evaluation only.
"""

from __future__ import annotations

ASKS = (
    "{e}", "{e} =", "{e} = ?", "{e}?", "{e} is?", "{e} [makes|equals|is] what?", "What is {e}?", "What is {e}?",
    "What is {e}?", "[Calculate|Compute|Evaluate|Solve] {e}[.|]",
    "[What is|What's|How much is|And what is] {e}[?| please?| then?| exactly?]",
    "[|Please |Now |Next, |OK, please ][calculate|compute|work out|solve|evaluate|find|do|answer:] {e}[.|| for me.| "
    "now.]",
    "[Can|Could|Would|Will] you [please |][calculate|compute|work out|tell me|solve|do|find] {e}[?| for me?| please?]",
    "[Can|Could|Would] you [please |][tell me|say|work out] [what|how much] {e} is?",
    "[Do you know|Tell me|I wonder|I want to know|I need to know|I forgot|Say] [what|how much] {e} [is|makes|gives]",
    "[What|How much] [does {e} give|does {e} make|do you get for {e}|do I get for {e}]?",
    "[What is|Find|Give me|I need|Tell me|I want|I am looking for|Write down] the "
    "[result of|value of|answer to|answer for|result for|solution to] {e}",
    "The [answer to|answer for|result of|result for|value of] {e}[?|, please.|:]",
    "[Which|What] number [is|equals|is equal to|do you get from] {e}?",
    "[Here is one for you:|Next one:|A sum:|My homework:|Task:|Exercise:|Problem:|For math class:|A test question:|"
    "Easy one:|Another one:|Mental math:|Question:] [|what is ]{e}[?|]",
    "[I can't do this one:|Help me with this:|Check this for me:|I am stuck on|Help, I need|My child asks about] {e}",
    "[If I|When you|When we|Suppose I] [type|enter|put] {e} into a [calculator|computer], what does it [say|show|"
    "give]?",
    "{e} [is equal to|equals|makes|gives|comes out as] what[ number|]?",
)
GET = "[What do you get|What is the result|What do I get|What is it now|How much is that|What does that make|Result|"\
      "What number do I have|What is the answer|How many is that]?"
OWN_ASKS = {
    "+": (
        "[What is|Find|Calculate|Give me|Tell me|I need|Work out] the [sum|total] of {a} and {b}[.|]",
        "[The sum|The total|Sum|Total] of {a} and {b}[?|]", "[Please add|Add|Can you add] {b} [to|and] {a}[.|]",
        "What [do|will] {a} and {b} [add up to|make|make together|give together|sum up to]?",
        "How much [do {a} and {b} make|are {a} and {b}|is {a} and {b}][ together| altogether|]?",
        "Increase {a} by {b}[.|]",
        "{a} and {b} make what[ number|]?", "[If|When] [I|you|we] add {b} [to|onto] {a}, what [is the result|do I get|"
                                            "comes out]?",
        "[What|Which] number is {b} [more|larger|greater|bigger] than {a}?", "What is {b} more than {a}?",
        "[Take|Think of] [the number |]{a} and [add|put on top] {b}. " + GET,
        "{a} [grows|goes up|rises|increases|becomes larger] by {b}. " + GET,
        "Add [together |up |]{a} and {b}[.| for me.|]", "Put {a} and {b} together. " + GET,
        "First {a}, then [another {b}|{b} more|{b} on top]. " + GET,
        "[There are|I see|We count] {a} and then {b} more. " + GET, "Count on {b} from {a}.",
        "My numbers are {a} and {b}. What is their [sum|total]?", "{a} [added to|together with] {b} [is|makes] what?",
    ),
    "-": (
        "[What is|Find|Calculate|Give me|Tell me|Work out] the difference [between|of] {a} and {b}[.|]",
        "The difference [between|of] {a} and {b}[?|]", "[Please subtract|Subtract|Please take|Take|Remove] {b} from "
                                                       "{a}[.|]",
        "[What|Which] number is {b} [less|smaller|lower] than {a}?", "What is {b} less than {a}?",
        "[Reduce|Decrease|Shorten] {a} by {b}[.|]", "[What|How much] [remains of|is left of] {a} after [subtracting|"
                                                    "taking away] {b}?",
        "[If|When] [I|you|we] [subtract|take away|take] {b} from {a}, what [is left|do I get|remains|comes out]?",
        "How [much|many] [is|are] left [when|if|after] {b} is [subtracted|taken away] from {a}?",
        "[Take|Think of] [the number |]{a} and [subtract|take away|remove] {b}. " + GET,
        "{a} [shrinks|goes down|falls|decreases|drops|becomes smaller] by {b}. " + GET,
        "How much [bigger|greater|more] is {a} than {b}?", "How much [smaller|less] is {b} than {a}?",
        "How far apart are {a} and {b}?", "[What|How much] [must be|is] added to {b} to [get|make|reach] {a}?",
        "From {a} [take|remove|subtract] {b}. " + GET, "First {a}, then {b} [less|fewer|are gone|go away]. " + GET,
        "[How much|What] is missing from {b} to {a}?", "Count back {b} from {a}.",
        "My numbers are {a} and {b}. What is their difference?", "{a} without {b} [is|makes] what?",
    ),
    "*": (
        "[What is|Find|Calculate|Give me|Tell me] the product of {a} and {b}[.|]",
        "[Please multiply|Multiply] {a} [by|and|with] {b}[.|]",
        "[What is |How much is |]{a} x {b}[?|]", "How many are {a} [groups|sets|rows|piles] of {b}?",
        "{a} [groups|rows|piles|boxes] of {b}[: how many| make how many| are how many]?",
        "The product of {a} and {b}[?|]",
        "[If|When] [I|you] multiply {a} by {b}, what [do I get|is the result|comes out]?",
        "[Take|Think of] {a} and multiply it by {b}. " + GET, "My numbers are {a} and {b}. What is their product?",
    ),
    "/": (
        "[Divide|Please divide] {a} by {b}[.|]", "How [many times|often] does {b} [go into|fit into] {a}?",
        "What is {a} divided into {b} equal parts?", "[Find|What is|Calculate|Give me] the quotient of {a} and {b}[.|]",
        "[If|When] [I|you] divide {a} by {b}, what [do I get|is the result|comes out]?",
        "[Take|Think of] {a} and divide it by {b}. " + GET, "{a} shared [equally |]among {b} is how [much|many] each?",
        "What is one of {b} equal parts of {a}?",
    ),
}
UNSEEN_ASKS = ("Quick maths: what would {e} come to?", "My calculator is broken, so figure out {e} for me.",
               "Could you let me know the outcome of {e}, please?", "I keep getting confused. How big is {e} really?")
UNSEEN_OWN_ASKS = {
    "+": ("Start at {a} and go up by {b}. Where do you land?", "I have two numbers, {a} and {b}. Add them for me.",
          "When {a} is raised by {b}, which number comes out?"),
    "-": ("Start at {a} and go down by {b}. Where do you land?", "By how much is {a} larger than {b}?",
          "When {a} is lowered by {b}, which number comes out?"),
    "*": ("Count {a} lots of {b} for me.",),
    "/": ("Split {a} evenly into {b} parts: how big is each?",),
}
STEP_ASKS = ("{q} Show your work.", "{q} Write down the steps.", "{q} Go digit by digit.", "{q} Show each step.",
             "{q} Do it on paper.", "Show me how to do this: {q}", "Digit by digit: {q}", "With working: {q}",
             "{q} Explain how you get there.", "Column by column, please: {q}", "{q} Start from the ones.",
             "Write out every column. {q}")
UNSEEN_STEP_ASKS = ("{q} I want to see how the columns are worked.", "{q} Let me follow the carrying on the way.")
BIGGER = "[larger|greater|bigger|higher]"
LESSER = "[smaller|smaller|lower]"
TWO = (
    "[Which|Which one|Which number|Which of the two|Which of these|Which of them|What] is {w}[,|:] {x} or {y}?",
    "Which is the {w} [number|one|of the two|value][,|:] {x} or {y}?",
    "{x} or {y}[:|,|?] [which|which one|which number] is {w}?",
    "Is {x} or {y} the {w}[ one| number]?", "What is the {w} of {x} and {y}?",
    "[Tell me|Name|Pick|Choose|Give me|Find|Write|Take|Say|I want|I need|Show me|Select] the {w} [one|number|of the "
    "two|value]: {x}[ or | and |, ]{y}[.|]", "Compare {x} [and|with] {y}. Which [is|one is|number is] {w}?",
    "Of {x} and {y}, [which|which one] is {w}?", "[Of|Between|From] {x} and {y}, [pick|take|choose|name] the {w}[ one|"
                                                 " number|].",
    "{w}: {x} or {y}?", "{w} number: {x}, {y}", "{x}, {y}: the {w} one?", "Here are {x} and {y}. Which is {w}?",
    "There are two numbers, {x} and {y}. [Which|Tell me which] is {w}?",
    "[Can you|Could you] [tell me|say|see] which is {w}, {x} or {y}?",
    "I [wonder|want to know] which is {w}, {x} or {y}.",
    "Between {x} and {y}, which number is {w}?", "The {w} of {x} and {y}[?| is?|, please.]",
    "My number is {x} and yours is {y}. Which number is {w}?",
)
LARGER = (*(ask.replace("{w}", BIGGER) for ask in TWO), "What is the maximum of {x} and {y}?",
          "[Max|Maximum] of {x} and {y}?",
          "Which of the two is more, {x} or {y}?", "[Which|What] is more, {x} or {y}?", "{x} or {y}, what is more?")
SMALLER = (*(ask.replace("{w}", LESSER) for ask in TWO), "What is the minimum of {x} and {y}?",
           "[Min|Minimum] of {x} and {y}?",
           "Which of the two is less, {x} or {y}?", "[Which|What] is less, {x} or {y}?", "{x} or {y}, what is less?")
GREATER_THAN = ("Is [|the number ]{x} [greater than|larger than|more than|above|bigger than|higher than] {y}?",
                "[Is it true that|Can you say that|Is it right that] {x} is [greater|larger|bigger|more] than {y}?",
                "{x} > {y}?", "{x} is [greater|larger|more] than {y}[, right|. True|. Is that right|. Yes or no]?")
LESS_THAN = ("Is [|the number ]{x} [less than|smaller than|below|lower than] {y}?",
             "[Is it true that|Can you say that|Is it right that] {x} is [less|smaller|lower] than {y}?",
             "{x} < {y}?", "{x} is [less|smaller] than {y}[, right|. True|. Is that right|. Yes or no]?")
MOST = (
    "[Which|Which one|Which number] of [these|these numbers|the following] is [the |]{w}: {s}?",
    "What is the {w} of {s}?",
    "[Find|Pick|Name|Choose|Give me|Tell me|Take|Write] the {w}[ number| one| value|]: {s}", "The {w} of {s}[?|]",
    "Which number is the {w}, {s}?", "{w} of {s}?", "Among {s}, which [number |]is the {w}?",
    "{s}: [which is|what is|find|name] the {w}?",
    "Tell me the {w} of these numbers: {s}.", "Here are some numbers: {s}. [Which is|What is] the {w}[ one|]?",
    "[Look at|Take] {s}. Which [number |one |]is {w}?",
)
LARGEST = (*(ask.replace("{w}", "[largest|greatest|biggest|highest]") for ask in MOST), "What is the maximum of {s}?",
           "Maximum: {s}",
           "Which is the most: {s}?")
SMALLEST = (*(ask.replace("{w}", "[smallest|lowest]") for ask in MOST), "What is the minimum of {s}?", "Minimum: {s}",
            "Which is the least: {s}?")
SORT = "[sort|order|arrange|rank]"
NUMBERS = "[these|the following|these|my|the] [numbers|numbers|values|figures]"
ORDERS = (
    "[|Please |Now |Would you please ]" + SORT + " " + NUMBERS + "{d}: {s}[.|]",
    "[|Please ][sort|order|arrange] {s}{d}[.|]",
    "[|Please ]put {s} in order{k}[.|]", "[Write|Give me|Give|List|Show] [these numbers|these values|the numbers|"
                                         "them]{d}: {s}",
    "[Write|List|Give me|Say] {s}{d}[.|]", "[Can|Could|Would] you [please |][sort|order|arrange] [|the numbers |"
                                           "these: ]{s}{d}?",
    "{s}[.|:|?] [Sort|Order|Arrange|Please sort|Now sort|Rank|List] [them|these|these numbers|the numbers]{d}[.|]",
    "{s}[\n|. ][Put|Write|Bring] [them|these|these numbers] in order{k}.",
    "[Here are some numbers:|My numbers:|Numbers:] {s}"
    "[. |\n][Sort|Order|Arrange|List] them{d}.", "[Sort|Order]{d}: {s}", "I [need|want|would like] {s}{d}[.|]",
    "How [do|would] {s} look{d}?", "[The list|These numbers] should be{d}: {s}",
    "[What is|Tell me|Find] the [right |correct |]order of {s}{k}[.|]", "[numbers|list]{d}: {s}", "{s}{d}",
)
BY_UP = ("[ from smallest to largest| from small to large| from low to high|, smallest first|, lowest first| by size, "
         "smallest first]")
BY_DOWN = ("[ from largest to smallest| from large to small| from high to low|, largest first|, highest first| by "
         "size, largest first]")
UP = ("[ in ascending order| from smallest to largest| from small to large| in increasing order| from low to high|, "
      "smallest "
      "first| with the smallest first| from the smallest to the largest| by size, smallest first| going up| from "
      "lowest to highest|, starting with the smallest| ascending]")
DOWN = ("[ in descending order| from largest to smallest| from large to small| in decreasing order| from high to low|"
        ", largest "
        "first| with the largest first| from the largest to the smallest| by size, largest first| going down| from "
        "highest to lowest|, starting with the largest| descending]")
PLAIN_ORDERS = ("Sort: {s}", "Sort these numbers: {s}", "Sort the list {s}.", "Please sort the numbers {s}.",
                "Sort {s}.",
                "[Put|Bring] these numbers in order: {s}", "Order the numbers {s} by size.", "Sort by size: {s}")
ASCENDING = (*(ask.replace("{d}", UP).replace("{k}", BY_UP) for ask in ORDERS), *PLAIN_ORDERS)
DESCENDING = tuple(ask.replace("{d}", DOWN).replace("{k}", BY_DOWN) for ask in ORDERS)
UNSEEN_LARGER = ("I have {x} and you have {y}. Name the higher figure.", "One of {x} and {y} beats the other. Which?")
UNSEEN_SMALLER = ("I have {x} and you have {y}. Name the lower figure.", "Out of {x} and {y}, give me the low one.")
UNSEEN_ASCENDING = ("My numbers are mixed up: {s}. Line them up so that they grow.",
                    "Begin with the least and end with the most: {s}")
PARITY = ("Is {x} even or odd?", "Is {x} odd or even?", "Even or odd: {x}?", "Is the number {x} even or odd?",
          "{x}: even or odd?", "Tell me if {x} is even or odd.", "Is {x} an even or an odd number?", "even or odd? {x}",
          "Check whether {x} is even or odd.")
AFTER = ("What number comes after {x}?", "Which number comes right after {x}?", "What comes after {x}?",
         "What is the number after {x}?", "What is the next number after {x}?", "{x}, and then?",
         "Counting up, what follows {x}?", "What is one more than {x}?")
BEFORE = ("What number comes before {x}?", "Which number comes right before {x}?", "What comes just before {x}?",
          "What is the number before {x}?", "What is one less than {x}?", "Counting down, what follows {x}?")
CONTINUE = ("Continue: {s}, and {k} more.", "Continue the sequence with {k} more numbers: {s}", "{s}: the next {k}?",
            "What are the next {k} numbers? {s}", "Give the next {k} numbers: {s}", "Which {k} numbers come next? {s}",
            "Write {k} more numbers of this sequence: {s}", "{s}, and so on. Give {k} more.", "Go on, {k} more: {s}")
CONTINUE_ONE = ("What comes next: {s}?", "What is the next number? {s}", "Which number comes next in {s}?",
                "Next in the sequence: {s}", "Find the next number: {s}", "{s}, and then?",
                "Continue: {s}, and 1 more.")
