// The prompt of an answer as it was sent, from the parts that the block `prompts` has.
import type { SentExample, SentPrompt, SentPrompts } from "./bundle";
import type { Data } from "./data";
import { json } from "./read";

/** One turn of a conversation. */
export interface Message {
  readonly from: string;
  /** Names of the images that come with it. */
  readonly images: readonly string[];
  readonly text: string;
}
export interface Sent {
  readonly messages: readonly Message[];
  readonly order: string;
  readonly blank: boolean;
  /** Continuations whose probabilities are compared after the prompt; none for an answer in words. */
  readonly compared: readonly string[];
  /** The number of solved examples that are not kept. */
  readonly withheld: number;
  /** Limit of new tokens, 0 for none; null if unknown. */
  readonly tokens: number | null;
}

const reading = new WeakMap<Data, Promise<SentPrompts>>();

/** Whether the page tells of prompts. */
export const hasPrompts = (data: Data): boolean => data.bundle.columns.has("results.prompt");

export const promptsOf = async (data: Data): Promise<SentPrompts> => {
  const known = reading.get(data);
  if (known !== undefined) return known;
  const read = json<SentPrompts>(data.bundle.blocks, "prompts");
  reading.set(data, read);
  return read;
};

/** The text of parts: 0 is the question, N the text of the Nth option as shown. */
export const filled = (parts: readonly (number | string)[], question: string, options: readonly string[]): string =>
  parts.map((part) => (typeof part === "string" ? part : part === 0 ? question : (options[part - 1] ?? ""))).join("");

/** The prompt of a result, or the reason why it cannot be shown; `replies` are the model's earlier replies. */
export const sentOf = (data: Data, prompts: SentPrompts, r: number, replies: readonly string[]): Sent | string => {
  const place = data.at("results.prompt", r);
  if (place < 0) return prompts.reasons[-1 - place] ?? "";
  const sent = prompts.prompts[place];
  if (sent === undefined) throw new Error(`the page has no prompt ${place}`);
  const q = data.question(r);
  const options = data.shown(r);
  const text = (number: number, question: string, texts: readonly string[]): string =>
    filled(prompts.texts[number] ?? [], question, texts);
  const texts = options.map(([, words]) => words);
  const own = data.images(q);
  const images = sent.images.map((image) => (typeof image === "string" ? image : `image ${image + 1}: ${own[image]?.name ?? ""}`));
  return {
    messages: [
      ...(sent.system === "" ? [] : [{ from: "System", images: [], text: sent.system }]),
      ...sent.examples.flatMap((example, number) => solved(example, number, sent.examples.length, text(example.text, "", []))),
      ...conversation(sent, images, text(sent.text, data.text(q), texts), replies),
    ],
    order: sent.order,
    blank: sent.blank,
    compared: { "": [], letters: options.map(([letter]) => letter), texts, others: sent.others }[sent.compared],
    withheld: sent.withheld,
    tokens: sent.tokens,
  };
};

const solved = ({ images, answer }: SentExample, number: number, of: number, text: string): readonly Message[] => {
  const from = `Solved example ${number + 1} of ${of}`;
  return [
    { from, images, text },
    { from: `${from}: its answer`, images: [], text: answer },
  ];
};

/** The turns of the conversation; the images belong to the first of them. */
const conversation = (sent: SentPrompt, images: readonly string[], text: string, replies: readonly string[]): readonly Message[] => {
  const messages: Message[] = [];
  const user = (words: string): void => {
    messages.push({ from: "User", images: messages.length === 0 ? images : [], text: words });
  };
  for (const [words, reply] of sent.turns) {
    user(words);
    messages.push({ from: "Model", images: [], text: reply });
  }
  user(text);
  sent.then.forEach((words, turn) => {
    messages.push({ from: "Model", images: [], text: replies[turn] ?? "" });
    user(words);
  });
  return messages;
};

const ORDERS: Readonly<Record<string, string>> = {
  "images-first": "before the text",
  "text-first": "after the text",
  "in-place": "at their marks in the text, such as <image 1>",
};
/** Where the images stand, in words. */
export const orderInWords = (order: string): string => ORDERS[order] ?? order;

/** The whole prompt as one text, to copy. */
export const plain = ({ messages, compared }: Sent): string =>
  [
    ...messages.map(({ from, images, text }) => `[${from}]\n${images.map((image) => `<${image}>\n`).join("")}${text}`),
    ...(compared.length > 0 ? [`[Compared]\n${compared.join("\n")}`] : []),
  ].join("\n\n");
