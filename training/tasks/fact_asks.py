"""How lists, paragraphs, checks and follow-ups about facts are asked for: templates with alternatives."""

CHECK_STARTS = ("is ", "are ", "does ", "do ", "did ", "was ", "can ", "has ", "have ", "must ")
CHECK_BEFORE = ("[tell me|tell us|say|please|quickly|listen|one thing|hi|hello|hey|OK|so|well|now|and|oh][, |: ]",
                "[I am not sure|I am unsure|just checking|just to be sure|let me check|my question|a question"
                "|I have a question|yes or no|answer me|answer yes or no|be honest|I need to be certain][: |, ]",
                "[my son|my daughter|our teacher|a friend|my boss|somebody] [asked|wants to know|asks]: ",
                "[for my homework|for a quiz|for a report|in the quiz|on the test][: |, ]")
CHECK_AFTER = (" [Yes or no|Do you know|Can you tell me|Or not|Yes, or no|Any idea|Do you know that]?",
               " [Answer yes or no|Please answer yes or no|Say yes or no|I am not sure|I was told so|Tell me|Thanks"
               "|Thank you|Please tell me|I have forgotten it|It is for school|Just curious].")
BARE_AFTER = (" [Just|Only] [yes or no|a yes or a no], [please|no more|nothing else].",
              " [Answer|Reply] [only|just] [with |]yes or no.", " [One word|A one-word answer], yes or no.")
TRUTH_LEADS = ("True or false: {}", "True or false? {}", "Is this true or false? {}", "{} True or false?",
               "[Say|Tell me|Write|Answer|Reply with|Answer with] true or false: {}",
               "{} Is [this|it|that] true or false?", "True or false, [what do you think|which is it]? {}",
               "[Decide|Tell me|Judge|Say|Find out|Check] [if|whether] [it|this|the sentence] is true or false: {}",
               "[This sentence|This claim|The following], is it true or false: {}",
               "[Please mark|Mark] [this|the statement|this sentence] [as true or false|true or false]: {}",
               "{} [Please say|Say|Tell me if it is|Decide:|Answer] true or false.")
SIGHT_ASKS = (
    "Name two sights in {e}.", "List two local attractions in {e}.", "What can I visit in {e}?", "Sights in {e}?",
    "[Name|List|Give me|Tell me|Recommend|Suggest|Show me|I need|I am looking for] [two|a couple of] "
    "[sights|attractions|tourist attractions|famous places|landmarks|places to visit] [in|of] {e}[|, please].",
    "What [should|can|could|must] [I|we|one|a tourist|visitors|people] [see|visit|look at|go and see] in {e}?",
    "[Which|What] [sights|places|attractions|landmarks] [should|can|must] [I|we|a tourist] [see|visit] in {e}?",
    "What is [there to see|there to visit|worth seeing|worth a visit] in {e}?", "What are two sights of {e}?",
    "[I am|We are|My parents are] [going to|flying to|traveling to|visiting|planning a holiday in] {e}. "
    "What [is worth a visit|is there to see|should we see|can we visit]?",
    "What do [tourists|visitors|people] [visit|see|like to see|look at] in {e}?", "What is {e} famous for?",
    "[Can|Could] you [recommend|name|suggest|list] two [sights|attractions|places] in {e}?", "[Sights|Attractions] {e}",
    "I have [a day|a weekend|two days|an afternoon] in {e}. What should I [look at|see|visit]?",
    "[Do you know|Are there] [any |some |]sights in {e}?", "What to [see|visit|look at] in {e}[?|, please?|]",
)
KIND_ASKS = (
    "Name {n} {g}.", "List {n} {g}.", "Give me {n} {g}.", "What are {n} {g}?", "{N} {g}, please.", "{N} {g}",
    "[Please |Kindly |OK, |Now |][name|list|write down|give me|tell me|think of] {n} {g}[|, please|, thanks].",
    "[Can|Could|Would] you [please |][name|list|write down|give me|think of] {n} {g}[|, please| for me]?",
    "[Do you know|Can you think of|May I have|What would be|Have you got] {n} {g}?",
    "[I need|I want|I would like|I am looking for|We need|I have to name] {n} {g}.",
    "[Make|Write|Give me|Create|I need] a [short |]list [of|with] {n} {g}.", "[Which|What] {n} {g} can you name?",
    "[My homework|The task|My task|Exercise|Quiz]: name {n} {g}.", "[For a quiz|For school|For a game] I need {n} {g}.",
    "Examples of {g}, {n} of them[|, please].", "[Some|A few] {g}, {n} [of them|in all][|, please].",
)
ABOUT_ASKS = (
    "Tell me about {n}.", "Describe {n}.", "What do you know about {n}?", "Explain what {n} is.", "Write about {n}.",
    "[Please |Kindly |]tell [me|us] [something|more|a bit|a little|what you know] about {n}[|, please].",
    "[Please |Kindly |]describe {n}[| to me| for me| in a few sentences| briefly].",
    "[Please |]write [a|one] [short |brief |little |small |][paragraph|text|description|note] [about|on] {n}.",
    "[Can|Could|Would] you [please |][describe|explain|introduce|present] {n}[| to me| to us]?",
    "What [can|could] you tell [me|us] about {n}?", "What is known about {n}?",
    "[I want|I would like|We want|I have] to [learn|know|hear|read] [something |more |]about {n}.",
    "Give me [a short text|some facts|a few sentences|a paragraph] [about|on] {n}.",
    "[Some|A few] [facts|sentences|lines|words] [about|on] {n}, please.",
    "What should [I|one|a student] know about {n}?", "[Introduce|Explain] {n} to [me|my class|a child|my students].",
    "[Info|Information|Facts|Details] [about|on] {n}",
)
AND_ASKS = (
    "And of {e}?", "And {e}?", "What about {e}?", "How about {e}?", "And {e}?", "{e}?", "and {e}", "{e}", "Now {e}.",
    "[And|OK, and|Thanks. And|Good. And|Fine, and|Ah. And|And now|Oh, and|Great! And|Yes, and] "
    "[of |for |what about |how about |then ||]{e}?",
    "[OK. |Good. |Thanks. |I see. |Ah. |Great! |Right. |]What [about|of] {e}[| then|, please|, then]?",
    "[OK. |Good. |Thanks. |I see. |Ah. |Great! |Right. |]How about {e}[| then|, please|, then]?",
    "[Next|Next one|Now|Then|Another|One more|Now this one|And the next|Last one|Second][: |, |? ]{e}[.|?|]",
    "[Tell me|Give me|I need|I want|I would like|Name|Say] the same [for|of|about] {e}[|, please|, too].",
    "The same [for|of|about|with] {e}[|, please].", "[Ditto|Likewise] for {e}[, please|?|.|]",
    "[Also|Now also|And also|Then also] {e}[|, please|, if you can].", "{e} [too|as well|also|next|now][, please|?|.|]",
    "[What|And what] [would it be|is it|will it be] [for|in the case of] {e}?",
    "[And what|What|But what] [if I say|if I ask about|when I take|when it comes to] {e}?",
    "[Do you know|Can you tell me|Could you tell me|Can you say|Do you have] it for {e}[| too| as well]?",
    "[And in|In] the case of {e}?",
    "[I need|I want|I would like|Please add|Add|Try|Take] {e}[| too| as well|, please].",
    "[Moving on to|On to|Turning to|Coming to|Let's go on with|Go on with] {e}[.|:|?]",
    "[My next|The next|My other|Another|One more] [one|question|word|name] is {e}.",
    "[I am|I'm] [also interested in|also looking for|now thinking of|now asking about] {e}.",
    "As for {e}?",
)
AND_ASKS_UNSEEN = ("Same question for {e}.", "And if it were {e}?", "Let us do {e} as well.",
    "I also wonder about {e}.")
TURN_OPENINGS = ("", "", "", "And ", "OK, and ", "Thanks. ", "Good. ", "Ah. ", "I see. ", "So ", "And now: ",
                 "[And|OK, and|Also|Then|Next|Now|One more thing|Another question|Tell me|And tell me][: |, ]",
                 "[Great|Perfect|Nice|Thank you|Interesting|Wonderful|Understood]! ")
TURN_ENDS = ("?", "?", "?", "?", "?", ", please?", ", do you know?", "? Thanks.", "? Do you know?", ", by the way?", "")
SIGHT_THENS = ("List two local attractions.", "What can I visit there?", "Name two sights there.",
               "What should I see there?",
               "What is there to see?", "Which sights are there?", "What do tourists look at there?", "And the sights?",
               "Anything to see there?", "Two sights, please.")
CHOICE_LEADS = (
    "{a} Choose from: {o}.", "{a} {E}?", "{a} Is it {e}?", "{o}: {q}", "{a} Pick one: {o}.", "{a} ({o})", "{a} {o}?",
    "{a} [Choose|Choose from|Choose one of|Select|Select one|Pick|Pick one of|Options|The options are|Possible answers"
    "|Choices|Your options|The choices are|One of these|Take one of]: {o}[.|]",
    "[Choose|Pick|Select|Take] [one of|from|between|among] {o}[: |. ]{a}",
    "[Options|Choices|Possible answers]: {o}. {a}", "{a} [Answer with|Reply with|Say] {e}.",
    "{a}\n[Options|Choices|Answers|Choose from]: {o}", "{a}\n{o}", "{E} - {q}",
)
COUNTRY_ASKS = (
    "[list|name|give me|tell me|write down|I need|think of] {n} countries [and|with|plus] their {w}[|, please].",
    "[can|could] you [please |][list|name|give me|write down] {n} countries [and|with] their {w}?",
    "{N} countries [and|with] their {w}[, please.|.|]", "[what are|do you know] {n} countries and their {w}?",
    "[make|write|create] a [short |]list of {n} countries [and|with] their {w}.",
)
PLANET_ASKS = ("[[list|name|give me|write down|show me|tell me|say] [the|all|all the] planets[| in order| of the solar "
               "system| of our solar system| from the sun outward|, please].|[what are|do you know|can you name"
               "|can you list|could you list] [all |]the planets[| in order| of the solar system]?"
               "|which planets are there?|the planets in order|planets of the solar system]")
TWO_ASKS = (
    "{q} and {t}?", "{q} and {t}?", "{q}, and {t}?", "{q}, and {n}?", "{q}? And {t}?", "{q} and {n}?", "{q}? {T}?",
    "{q}[? Also, | and also |? And | - and |, and besides, |? Then, |; |, and then: ]{t}?", "1. {q}? 2. {t}?",
    "[tell me|name|give me|say|find|look up|list|please tell me|please name|kindly name] "
    "[both |][{a} and {b}|{a} and also {b}|{a} as well as {b}|{a}, then {b}|{a} plus {b}][|, please].",
    "[what are|do you know|can you tell me|can you name|could you give me] [both |]{a} and {b}[|, please]?",
    "[I need|I want|I am looking for|I would like|I want to know|I have to find out] [|two things: |both ]{a} and {b}.",
    "[two questions|a double question|two things]: {q}, and {t}?", "[both |]{a} and {b}[, please.|.|?]",
    "[I have two questions|two questions about one thing]: {q}? {T}?",
)
TWO_THINGS_ASKS = (
    "what is {a} and what is {b}?", "what are {a} and {b}?", "{a} and {b}[?|, please.|]",
    "[name|tell me|give me|I need|find|look up|I want to know|please tell me|say|I am looking for] "
    "[both |]{a} and [also |then |]{b}[|, please].",
    "[do you know|can you tell me|could you name|can you give me] [both |]{a} and [also |]{b}?",
)
ONE_ASKS = (
    "Tell me one fact about {n}.", "Just one fact about {n}, please.", "One interesting fact about {n}?",
    "[Tell me|Give me|I want|I need|Name|Write|Say] [one|a single|one short] [fact|thing] about {n}[|, please].",
    "[Write|Say|Tell me] [something|one thing|one sentence] about {n}[| in one sentence].",
    "[Do you know|Can you tell me|Can you give me|Could you write] [a fact|one fact|one sentence|one thing] about {n}?",
    "[A single|One|Only one|Just one] [fact|sentence] about {n}[|, please].",
    "What is one thing [I should know|to know] about {n}?",
)
