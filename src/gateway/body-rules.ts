import { Refusal } from './refusal.ts'

/**
 * What a body may not ask of a runtime, by what each follows. A picture by URL has the server fetch it, past the rules for downloads and from
 * inside this network: llama-server does so with a projector, mlx-lm even for a model of texts. Where `model` names anything that
 * there is to be loaded or downloaded, it becomes what is served.
 */
interface BodyRules {
  /** Media are accepted in the body itself, and not as an address or path. */
  readonly refusesAddresses: true
  /** What `model` becomes; `served` = as the engine calls what it serves. Absent = it stays. */
  readonly model?: 'served' | 'default_model'
  /** Fields that are taken out with it, since they load something or change how much memory the model takes and for how long. */
  readonly without?: readonly string[]
}

const refusesAddresses = true
const bodyRules: Readonly<Partial<Record<string, BodyRules>>> = {
  'llama-server': { refusesAddresses },
  llamacpp: { refusesAddresses },
  'mlx-lm': { refusesAddresses, model: 'default_model', without: ['adapters', 'draft_model'] },
  'mlx-server': { refusesAddresses },
  'vllm-swift': { refusesAddresses, model: 'served' },
  ollama: {
    ...{ refusesAddresses, model: 'served' },
    // With another value of these Ollama would load the model anew.
    without: [
      'name',
      'keep_alive',
      ...['num_ctx', 'num_batch', 'num_gpu', 'main_gpu', 'use_mmap', 'num_thread'].map((one) => `options.${one}`),
    ],
  },
  omlx: { refusesAddresses, model: 'served' },
  tensorfold: { refusesAddresses, model: 'served' },
}

/** A runtime that is not in the table is asked nothing anyway. */
export const rulesOf = (runtime: string): BodyRules => bodyRules[runtime] ?? { refusesAddresses }

/** The fields whose text, or whose `url`, names a picture, a sound, a film or a file. */
const mediaFields: ReadonlySet<string> = new Set([
  ...['image_url', 'video_url', 'audio_url', 'file_url', 'input_image', 'input_video', 'input_audio', 'input_file'],
  ...['image', 'images', 'source'],
])

/** A scheme that is not `data:`; the letters of base64 have no colon. */
const addressStart = /^\s*(?!data:)[a-z][a-z\d+.-]*:/i
const dataStart = /^\s*data:/i
/** Of an address that much is looked at: enough to see that it is none. */
const lookedAtBytes = 64
/** The names above are shorter, however they are escaped. */
const longestKeyBytes = 256
/** No request nests as deep; a parser that does may be made to. */
const deepest = 512

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const [openBrace, openBracket, closeBrace, closeBracket] = [0x7b, 0x5b, 0x7d, 0x5d]

/** Looks through a JSON body that comes in pieces for media that are to be fetched. Throws Refusal at the piece in which one begins. */
export class AddressScan {
  /** The field that each open object or list is the value of. */
  readonly #fields: string[] = []
  readonly #isObject: boolean[] = []
  #key = ''
  #isKey = false
  #isInText = false
  #isEscaped = false
  #text: number[] = []

  push(piece: Buffer): void {
    for (let at = 0; at < piece.length;) at = this.#isInText ? this.#inText(piece, at) : this.#between(piece, at)
  }

  #between(piece: Buffer, at: number): number {
    const byte = piece[at]
    if (byte === quote) {
      this.#isInText = true
      this.#text = []
    } else if (byte === openBrace || byte === openBracket) this.#open(byte === openBrace)
    else if (byte === closeBrace || byte === closeBracket) {
      this.#fields.pop()
      this.#isObject.pop()
      this.#isKey = false
    } else if (byte === colon) this.#isKey = false
    else if (byte === comma) this.#isKey = this.#isObject.at(-1) === true
    return at + 1
  }

  #open(isObject: boolean): void {
    if (this.#fields.length >= deepest) throw tooDeep
    // Within a list the field of the list counts.
    this.#fields.push(this.#isObject.at(-1) === false ? (this.#fields.at(-1) ?? '') : this.#key)
    this.#isObject.push(isObject)
    this.#isKey = isObject
    this.#key = ''
  }

  /** Returns where to go on. */
  #inText(piece: Buffer, from: number): number {
    const kept = this.#isKey ? longestKeyBytes : this.#isMedium ? lookedAtBytes : 0
    let at = from
    for (; at < piece.length; at += 1) {
      if (!this.#isEscaped && this.#text.length >= kept) at = nextOf(piece, at)
      const byte = piece[at]
      if (byte === undefined) break
      if (byte === quote && !this.#isEscaped) {
        this.#ended()
        return at + 1
      }
      this.#isEscaped = byte === backslash && !this.#isEscaped
      if (this.#text.length < kept) this.#text.push(byte)
    }
    return at
  }

  get #isMedium(): boolean {
    const field = this.#fields.at(-1) ?? ''
    if (this.#isObject.at(-1) === false) return mediaFields.has(field)
    return mediaFields.has(this.#key) || ((this.#key === 'url' || this.#key === 'file') && mediaFields.has(field))
  }

  #ended(): void {
    this.#isInText = false
    if (this.#isKey) this.#key = folded(unescaped(this.#text))
    else if (this.#isMedium && isAddress(this.#key, unescaped(this.#text))) throw addressRefused
  }
}

/** What stands where a URL is wanted may be a path too; elsewhere it may be the content itself. */
const isAddress = (key: string, text: string): boolean =>
  /url$|^file$/.test(key) ? !dataStart.test(text) : addressStart.test(text)

/** The next quote or backslash, or the end. */
function nextOf(piece: Buffer, from: number): number {
  let at = from
  while (at < piece.length && piece[at] !== quote && piece[at] !== backslash) at += 1
  return at
}

/** A text that was cut off may end within an escape. */
function unescaped(bytes: readonly number[]): string {
  const text = Buffer.from(bytes).toString('utf8')
  return text.replaceAll(/\\(?:u([\da-f]{4})|(.))/gi, (_whole, hex: string | undefined, sign: string | undefined) =>
    hex === undefined ? (sign ?? '') : String.fromCharCode(Number.parseInt(hex, 16)),
  )
}

/** The body with `model` as what is served, and without what the rules take out. Throws Refusal where it is no JSON object. */
export function rewritten(body: Buffer, { model, without = [] }: BodyRules, served: string | undefined): Buffer {
  const named = model === 'served' ? served : model
  if (model !== undefined && named === undefined) throw nameless
  const kept = [...without, 'model'].reduce<object>(withoutField, parsedObject(body))
  return Buffer.from(JSON.stringify({ ...kept, model: named }))
}

/** `path`: a field, or `field.inner`. */
function withoutField(of: object, path: string): object {
  const [field, inner] = path.split('.')
  return Object.fromEntries(
    Object.entries(of).flatMap(([name, value]: [string, unknown]) => {
      if (folded(name) !== field) return [[name, value]]
      return inner !== undefined && isObject(value) ? [[name, withoutField(value, inner)]] : []
    }),
  )
}

/** A server in Go takes a field by its name in any case, and by the signs that become its letters in another. */
const folded = (name: string): string => name.toUpperCase().toLowerCase()

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function parsedObject(body: Buffer): object {
  try {
    const parsed: unknown = JSON.parse(body.toString('utf8'))
    if (isObject(parsed)) return parsed
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  throw new Refusal('4xx', 400, 'body_not_json', 'The body must be one JSON object.')
}

const addressRefused = new Refusal(
  ...(['4xx', 400, 'address_refused'] as const),
  'Send images and other media in the request itself, as data:image/…;base64,…, and not as an address or a file, which this machine would fetch for you.',
)

const nameless = new Refusal(
  ...(['no_backend', 503, 'not_serving'] as const),
  'The gateway does not know yet what the engine calls its model: ask again in a moment.',
)

const tooDeep = new Refusal('4xx', 400, 'body_too_deep', `The body nests more than ${deepest} levels deep.`)

/** What is compressed cannot be looked at, and a server might unpack it. */
export const encodingRefused = new Refusal(
  ...(['4xx', 415, 'encoding_refused'] as const),
  'Send the body without Content-Encoding.',
)
