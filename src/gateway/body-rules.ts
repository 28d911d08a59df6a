import { Refusal } from './refusal.ts'

/**
 * What a body may not ask of a runtime, by what each follows. A picture by URL has the server fetch it, past the rules for downloads and from
 * inside this network: llama-server does so with a projector (`handle_media` in tools/server/server-common.cpp of b11434), mlx-lm even for a
 * model of texts. Where `model` names anything that there is to be loaded or downloaded, it becomes what is served.
 */
export interface BodyRules {
  /** What `model` becomes; `served` = as the engine calls what it serves. Absent = it stays. */
  readonly model?: 'served' | 'default_model'
  /** Fields that are taken out, since they load something, run something, or change how much memory the model takes and for how long. */
  readonly without: ReadonlySet<string>
  /** The same below `options`. */
  readonly withoutOptions: ReadonlySet<string>
  /** What a client may set of the chat template; absent = anything, by a value that is neither a list nor an object. */
  readonly templateValues?: ReadonlySet<string>
  /** Absent = the runtime carries out no tool itself. */
  readonly toolTypes?: ReadonlySet<string>
  /** It does not take a body in chunks. */
  readonly needsLength: boolean
}

const none: ReadonlySet<string> = new Set()
const plain: BodyRules = { without: none, withoutOptions: none, needsLength: false }

/**
 * By `apply_chat_template` of transformers, whose arguments they become, `chat_template` is a program. These are what templates of models ask
 * for (Qwen 3, DeepSeek V3.1, gpt-oss, GLM 4.6, Granite 4, as of 2026-11-28).
 */
const templateValues: ReadonlySet<string> = new Set([
  ...['enable_thinking', 'thinking', 'thinking_budget', 'preserve_thinking', 'clear_thinking', 'reasoning_effort'],
  ...['model_identity', 'builtin_tools', 'date_string', 'controls'],
])
const inPython: BodyRules = { ...plain, templateValues, without: new Set(['chat_template']), model: 'served' }

const bodyRules: Readonly<Partial<Record<string, BodyRules>>> = {
  'llama-server': plain,
  llamacpp: plain,
  'mlx-lm': {
    ...{ ...inPython, model: 'default_model', needsLength: true },
    without: new Set([...inPython.without, 'adapters', 'draft_model']),
  },
  'mlx-server': plain,
  'vllm-swift': inPython,
  ollama: {
    ...{ ...plain, model: 'served' },
    // With another value of these Ollama would load the model anew.
    without: new Set(['name', 'keep_alive']),
    withoutOptions: new Set(['num_ctx', 'num_batch', 'num_gpu', 'main_gpu', 'use_mmap', 'num_thread']),
    // Ollama searches the web itself, with the account of the person (0.17, /v1/messages and /v1/responses).
    toolTypes: new Set(['function', 'custom']),
  },
  omlx: inPython,
  tensorfold: { ...inPython, needsLength: true },
}

/** A runtime that is not in the table is asked nothing anyway. */
export const rulesOf = (runtime: string): BodyRules => bodyRules[runtime] ?? plain

/**
 * Where in a body something stands: `open` = in what the model is to read, where media may be; `medium` and `source` = below a field that holds
 * one; `plain` = where nothing is fetched whatever it says, such as the arguments of a tool.
 */
export type Place = 'root' | 'open' | 'medium' | 'source' | 'plain' | 'template' | 'options' | 'tools' | 'tool'

const openFields: ReadonlySet<string> = new Set([
  ...['messages', 'input', 'system', 'prompt', 'content', 'contents', 'documents', 'document'],
  ...['query', 'queries', 'text_1', 'text_2', 'data_1', 'data_2'],
])
/** What a model said or is told beside what it reads: names and values of other programs. */
const plainFields: ReadonlySet<string> = new Set([
  ...['tool_calls', 'function_call', 'arguments', 'input', 'parameters', 'metadata', 'citations', 'annotations'],
])
/** Fields that hold a medium, or an object with one. */
const contentFields: ReadonlySet<string> = new Set([
  ...['input_image', 'input_video', 'input_audio', 'input_file', 'image', 'images', 'image_data'],
  ...['video', 'audio', 'file_data', 'multimodal_data'],
])
/** Fields that hold an address, or an object with one. */
const addressFields: ReadonlySet<string> = new Set(['image_url', 'video_url', 'audio_url', 'file_url'])
const addressesBelow: ReadonlySet<string> = new Set([...addressFields, 'url', 'uri', 'file', 'path'])
const contentsBelow: ReadonlySet<string> = new Set([...contentFields, 'data', 'b64_json'])

/** The place of what a field holds. */
export function placeBelow(place: Place, field: string): Place {
  if (place === 'root') {
    if (field === 'chat_template_kwargs') return 'template'
    if (field === 'options' || field === 'tools') return field
    if (contentFields.has(field)) return 'medium'
    return openFields.has(field) ? 'open' : 'plain'
  }
  if (place === 'open') {
    if (plainFields.has(field)) return 'plain'
    if (field === 'source') return 'source'
    return contentFields.has(field) || addressFields.has(field) || field === 'file' ? 'medium' : 'open'
  }
  return place === 'medium' || place === 'source' ? place : 'plain'
}

/** What a text has to be: `address` = `data:…`, since any other is fetched; `content` = that, or base64. */
export type Judgement = 'address' | 'content' | 'toolType'

export function judgementOf(place: Place, field: string): Judgement | undefined {
  switch (place) {
    case 'root':
      return contentFields.has(field) ? 'content' : undefined
    case 'open':
      return addressFields.has(field) ? 'address' : contentFields.has(field) ? 'content' : undefined
    case 'medium':
      return addressesBelow.has(field) ? 'address' : contentsBelow.has(field) ? 'content' : undefined
    case 'source':
      return field === 'url' ? 'address' : undefined
    case 'tool':
      return field === 'type' ? 'toolType' : undefined
    default:
      return undefined
  }
}

/** A server in Go takes a field by its name in any case, and by the signs that become its letters in another. */
export const folded = (name: string): string => name.toUpperCase().toLowerCase()

export const addressRefused = new Refusal(
  ...(['4xx', 400, 'address_refused'] as const),
  'Send images and other media in the request itself, as data:image/…;base64,…, and not as an address or a file, which this machine would fetch for you.',
)

export const toolRefused = (type: string): Refusal =>
  new Refusal(
    ...(['4xx', 400, 'tool_refused'] as const),
    `A tool of the type ${JSON.stringify(type)} would be carried out by this machine, with the account of its owner: only tools of the type "function" are passed on.`,
  )

export const templateRefused = (name: string): Refusal =>
  new Refusal(
    ...(['4xx', 400, 'template_refused'] as const),
    `chat_template_kwargs.${name.slice(0, 100)} is not passed on: only texts, numbers and true or false are, and to a runtime in Python only as ${[...templateValues].join(', ')}.`,
  )

export const nameless = new Refusal(
  ...(['no_backend', 503, 'not_serving'] as const),
  'The gateway does not know yet what the engine calls its model: ask again in a moment.',
  { retryAfterS: 1 },
)

/** What is compressed cannot be looked at, and a server might unpack it. */
export const encodingRefused = new Refusal(
  ...(['4xx', 415, 'encoding_refused'] as const),
  'Send the body without Content-Encoding.',
)
