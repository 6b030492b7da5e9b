// Approximate answers of a run. Twin of sgnb/viz/state/run_approximations.py.

const SHOWN_ANSWERS = 3;
const SHOWN_TEXT = 200;
const VERDICTS = { same: "verified", differs: "different", unverified: "unverified", pending: "not verified yet" };

function countSplice(run, event) {
  run.splices.set(event.request, { spliced: event, verified: null });
}

function countVerdict(run, event) {
  const answer = run.splices.get(event.request);
  if (answer) run.splices.set(event.request, { ...answer, verified: event });
}

function verdictOf({ verified: result }) {
  if (!result) return "not verified yet";
  if (result.status === "unverified") return `unverified: ${result.reason}`;
  const { tokens, same_tokens: same } = result;
  if (same < tokens) {
    const letters = [...result.text];
    const begin = visible(letters.slice(0, SHOWN_TEXT).join("").replaceAll("\n", " "));
    const text = begin + (letters.length > SHOWN_TEXT ? "…" : "");
    return `differs from token ${same + 1}; exact answer: ${text}`;
  }
  const word = result.status === "same" ? "verified" : "differs";
  const close = `mean KL ${result.mean_kl.toFixed(3)}, keys off by ${(100 * result.key_error).toFixed(1)} %`;
  return `${word} ${duration(result.seconds)} later: ${tokens} of ${tokens} tokens the same, ${close}`;
}

function wordsOfSplices(run) {
  const answers = [...(run?.splices.values() ?? [])];
  const sum = (name) => grouped(answers.reduce((total, answer) => total + answer.spliced[name], 0));
  if (answers.length <= SHOWN_ANSWERS) {
    return answers
      .map((answer) => {
        const { computed, prompt_tokens: prompt } = answer.spliced;
        return `approximate: computed ${grouped(computed)} of ${grouped(prompt)} tokens; ${verdictOf(answer)}`;
      })
      .join("\n");
  }
  const count = (status) => answers.filter((answer) => (answer.verified?.status ?? "pending") === status).length;
  const parts = Object.keys(VERDICTS).filter(count);
  const verdicts = parts.map((status) => `${count(status)} ${VERDICTS[status]}`).join(", ");
  return `${answers.length} approximate answers: computed ${sum("computed")} of ${sum("prompt_tokens")} tokens; ${verdicts}`;
}
