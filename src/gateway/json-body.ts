import {
  addressRefused,
  folded,
  judgementOf,
  nameless,
  placeBelow,
  templateRefused,
  toolRefused,
  type BodyRules,
  type Judgement,
  type Place,
} from './body-rules.ts'
import { Refusal } from './refusal.ts'

/** No request nests as deep; a parser that does may be made to. */
const deepest = 512
/** Several times the tokens of the longest contexts, which a request may name one by one. */
const mostValues = 4_000_000
/** The key under way is held. No field of any API has a name nearly as long. */
const longestKeyBytes = 4_096
/** No model has a longer name. */
const longestModelBytes = 2_048
/** Of a text that may be an address this much tells whether it is `data:`. */
const judgedBytes = 64

const [quote, backslash, comma, colon, space] = [0x22, 0x5c, 0x2c, 0x3a, 0x20]
const [openBrace, openBracket, closeBrace, closeBracket] = [0x7b, 0x5b, 0x7d, 0x5d]

const tableOf = (signs: RegExp): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, byte) => Number(signs.test(String.fromCharCode(byte))))
const isSpace = tableOf(/[ \t\n\r]/)
const isLiteral = tableOf(/[\w.+-]/)
const inBase64 = tableOf(/[\w+/=-]/)
const isHex = tableOf(/[\da-f]/i)
const isEscape = tableOf(/["\\/bfnrtu]/)

interface Level {
  readonly isObject: boolean
  readonly place: Place
  /** The present field; of a list, the field that it is the value of. */
  field: string
  /** A member before the present one stays, so that there has to be a comma. */
  hasMember: boolean
}

/** What may come next, between texts. */
type Expected = 'object' | 'value' | 'valueOrEnd' | 'key' | 'keyOrEnd' | 'colon' | 'commaOrEnd' | 'literal' | 'nothing'

/** A value that is a text, and is under way. */
interface Text {
  is: 'model' | Judgement | undefined
  /** Its first bytes, as they were sent. */
  bytes: number[]
  keptBytes: number
  isBase64: boolean
}

/**
 * A JSON body that comes in pieces and goes on as an engine may have it, by the rules for its runtime: fields that are taken out become spaces,
 * and what the engine calls its model stands first, so that the length is known before the body has come. Nothing but the key under way is
 * held back. Texts, lists and objects are read as strictly as by the strictest engine, so that none reads them in another way. A piece may be
 * changed in place.
 */
export class JsonBody {
  /** The first `model` in the outermost object; undefined until it is read. */
  model: string | undefined
  /** How much longer the body becomes. */
  readonly addedBytes: number
  readonly #rules: BodyRules | undefined
  readonly #added: Buffer
  readonly #levels: Level[] = []
  #expected: Expected = 'object'
  #isInText = false
  readonly #text: Text = { is: undefined, bytes: [], keptBytes: 0, isBase64: true }
  /** Of an escape under way: 0 = none, 1 = its letter is next, 2 to 5 = digits of it are. */
  #escape = 0
  #escaped = ''
  #values = 0
  #bytes: Buffer = Buffer.alloc(0)
  /** The place in `#bytes` of the key under way, and before it, where its member may have to be taken out, of the comma. */
  #keyAt: number | undefined
  #commaAt: number | undefined
  #held = Buffer.alloc(0)
  /** How deep the member stands that is being taken out, and where it begins in `#bytes`. */
  #cutDepth = 0
  #cutFrom = 0

  /** Without rules it is only read. `served`: what the engine calls its model. Throws Refusal where that is needed and unknown. */
  constructor(rules?: BodyRules, served?: string) {
    this.#rules = rules
    const named = rules?.model === 'served' ? served : rules?.model
    if (rules?.model !== undefined && named === undefined) throw nameless
    this.#added = Buffer.from(named === undefined ? '' : `"model":${JSON.stringify(named)},`)
    this.addedBytes = this.#added.length
  }

  /** Returns what goes on. Throws Refusal. */
  push(piece: Buffer): Buffer {
    this.#bytes = this.#held.length > 0 ? Buffer.concat([this.#held, piece]) : piece
    for (let at = this.#held.length; at < this.#bytes.length;)
      at = this.#isInText ? this.#inText(at) : this.#between(at)
    if (this.#cutDepth > 0) this.#bytes.fill(space, this.#cutFrom)
    this.#cutFrom = 0
    return this.#withoutHeld()
  }

  /** Throws Refusal where the body is not whole. */
  end(): void {
    if (this.#expected !== 'nothing') throw notJson
  }

  /** Spaces between a comma and its key go on before both. */
  #withoutHeld(): Buffer {
    const [bytes, commaAt, keyAt] = [this.#bytes, this.#commaAt, this.#keyAt ?? this.#bytes.length]
    const from = commaAt ?? keyAt
    const commaBytes = commaAt === undefined ? 0 : 1
    this.#held = Buffer.concat([bytes.subarray(from, from + commaBytes), bytes.subarray(keyAt)])
    if (commaAt !== undefined) this.#commaAt = 0
    if (this.#keyAt !== undefined) this.#keyAt = commaBytes
    if (from === bytes.length) return bytes
    return Buffer.concat([bytes.subarray(0, from), bytes.subarray(from + commaBytes, keyAt)])
  }

  get #level(): Level {
    const level = this.#levels.at(-1)
    if (!level) throw notJson
    return level
  }

  /** Whether members of it are taken out. */
  #isEdited({ isObject, place }: Level): boolean {
    if (!this.#rules || !isObject) return false
    if (place === 'options') return this.#rules.withoutOptions.size > 0
    return place === 'root' && (this.addedBytes > 0 || this.#rules.without.size > 0)
  }

  #isCut({ place, field }: Level): boolean {
    const { model, without, withoutOptions } = this.#rules ?? {}
    if (place === 'root') return without?.has(field) === true || (model !== undefined && field === 'model')
    return place === 'options' && withoutOptions?.has(field) === true
  }

  /** Returns where to go on. */
  #between(at: number): number {
    const byte = this.#bytes[at] ?? 0
    if (this.#expected === 'literal') {
      if (isLiteral[byte] === 1) return at + 1
      this.#expected = 'commaOrEnd'
    }
    if (isSpace[byte] === 1) return at + 1
    switch (this.#expected) {
      case 'object':
        if (byte !== openBrace) throw notJson
        return this.#open(at)
      case 'keyOrEnd':
      case 'key':
        if (byte === closeBrace && this.#expected === 'keyOrEnd') return this.#close(at)
        if (byte !== quote) throw notJson
        return this.#beginKey(at)
      case 'colon':
        if (byte !== colon) throw notJson
        this.#expected = 'value'
        return at + 1
      case 'valueOrEnd':
      case 'value':
        if (byte === closeBracket && this.#expected === 'valueOrEnd') return this.#close(at)
        return this.#beginValue(byte, at)
      case 'commaOrEnd':
        if (byte !== comma) return this.#close(at)
        this.#endCut(at)
        if (this.#isEdited(this.#level)) this.#commaAt = at
        this.#expected = this.#level.isObject ? 'key' : 'value'
        return at + 1
      default:
        throw notJson
    }
  }

  #open(at: number): number {
    const isObject = this.#bytes[at] === openBrace
    const outer = this.#levels.at(-1)
    if (this.#rules && outer?.place === 'template') throw templateRefused(outer.field)
    if (this.#levels.length >= deepest) throw tooDeep
    const field = outer?.field ?? ''
    const inner = outer?.isObject === true ? placeBelow(outer.place, field) : (outer?.place ?? 'root')
    const place = inner === 'tools' && outer?.isObject === false ? 'tool' : inner
    this.#levels.push({ isObject, place, field, hasMember: outer === undefined && this.addedBytes > 0 })
    this.#expected = isObject ? 'keyOrEnd' : 'valueOrEnd'
    if (outer !== undefined || this.addedBytes === 0) return at + 1
    this.#bytes = Buffer.concat([this.#bytes.subarray(0, at + 1), this.#added, this.#bytes.subarray(at + 1)])
    this.#commaAt = at + this.addedBytes
    return at + 1 + this.addedBytes
  }

  #close(at: number): number {
    if (this.#bytes[at] !== (this.#level.isObject ? closeBrace : closeBracket)) throw notJson
    this.#endCut(at)
    if (this.#commaAt !== undefined) this.#bytes[this.#commaAt] = space
    this.#commaAt = undefined
    this.#levels.pop()
    this.#expected = this.#levels.length > 0 ? 'commaOrEnd' : 'nothing'
    return at + 1
  }

  /** Where the member ends that is taken out, if it is one. */
  #endCut(at: number): void {
    if (this.#cutDepth === 0 || this.#cutDepth !== this.#levels.length) return
    this.#bytes.fill(space, this.#cutFrom, at)
    this.#cutDepth = 0
  }

  #beginKey(at: number): number {
    this.#isInText = true
    this.#keyAt = at
    this.#keeps(undefined, 0)
    return at + 1
  }

  #keeps(is: Text['is'], keptBytes: number): void {
    const text = this.#text
    text.is = is
    text.keptBytes = keptBytes
    text.bytes = []
    text.isBase64 = true
  }

  #beginValue(byte: number, at: number): number {
    this.#values += 1
    if (this.#values > mostValues) throw tooMany
    if (byte === openBrace || byte === openBracket) return this.#open(at)
    this.#expected = 'commaOrEnd'
    if (byte === quote) {
      this.#isInText = true
      this.#looksAt(this.#level)
      return at + 1
    }
    if (isLiteral[byte] !== 1) throw notJson
    this.#expected = 'literal'
    return at + 1
  }

  /** What matters of the text that begins. */
  #looksAt({ place, field }: Level): void {
    const is = this.#rules && judgementOf(place, field)
    if (place === 'root' && field === 'model') this.#keeps('model', longestModelBytes)
    else this.#keeps(is, is ? judgedBytes : 0)
  }

  /** Returns where to go on. */
  #inText(from: number): number {
    const [bytes, text] = [this.#bytes, this.#text]
    const looksAtAll = text.is === 'content'
    for (let at = from; at < bytes.length; at += 1) {
      if (this.#escape === 0 && !looksAtAll && text.bytes.length >= text.keptBytes) at = nextSignOf(bytes, at)
      const byte = bytes[at]
      if (byte === undefined) break
      if (this.#escape > 0) this.#inEscape(byte)
      else if (byte === quote) {
        this.#isInText = false
        if (this.#keyAt === undefined) this.#endText()
        else this.#endKey(at)
        return at + 1
      } else if (byte < space) throw notJson
      else if (byte === backslash) this.#escape = 1
      else if (inBase64[byte] === 0) text.isBase64 = false
      if (text.bytes.length < text.keptBytes) text.bytes.push(byte)
    }
    if (this.#keyAt !== undefined && bytes.length - this.#keyAt > longestKeyBytes) throw longKey
    return bytes.length
  }

  #inEscape(byte: number): void {
    if (this.#escape === 1) {
      if (isEscape[byte] === 0) throw notJson
      // Of what may be escaped, base64 has the ends of lines, and a slash.
      if (!'nr/u'.includes(String.fromCharCode(byte))) this.#text.isBase64 = false
      this.#escaped = ''
      this.#escape = byte === 0x75 ? 2 : 0
      return
    }
    if (isHex[byte] === 0) throw notJson
    this.#escaped += String.fromCharCode(byte)
    this.#escape = this.#escape === 5 ? 0 : this.#escape + 1
    if (this.#escape === 0 && inBase64[Number.parseInt(this.#escaped, 16)] !== 1) this.#text.isBase64 = false
  }

  #endText(): void {
    const { is, bytes, isBase64 } = this.#text
    if (is === undefined) return
    const text = unescaped(Buffer.from(bytes).toString('utf8'))
    if (is === 'model') {
      if (bytes.length < longestModelBytes) this.model ??= text
    } else if (is === 'toolType') {
      if (this.#rules?.toolTypes?.has(text) === false) throw toolRefused(text)
    } else if (!/^\s*data:/i.test(text) && !(is === 'content' && isBase64)) throw addressRefused
  }

  #endKey(at: number): void {
    const level = this.#level
    this.#expected = 'colon'
    const from = (this.#keyAt ?? 0) + 1
    if (at - from > longestKeyBytes) throw longKey
    // What stands in a plain place has no name that matters.
    if (level.place !== 'plain') this.#hasKey(level, folded(unescaped(this.#bytes.toString('utf8', from, at))))
    this.#keyAt = undefined
    this.#commaAt = undefined
  }

  #hasKey(level: Level, field: string): void {
    level.field = field
    const allowed = this.#rules?.templateValues
    if (level.place === 'template' && allowed && !allowed.has(field)) throw templateRefused(field)
    if (!this.#isEdited(level)) return
    if (this.#isCut(level)) {
      if (this.#commaAt !== undefined) this.#bytes[this.#commaAt] = space
      this.#cutDepth = this.#levels.length
      this.#cutFrom = this.#keyAt ?? 0
    } else {
      if (this.#commaAt !== undefined && !level.hasMember) this.#bytes[this.#commaAt] = space
      level.hasMember = true
    }
  }
}

/** The next quote, backslash or control character, or the end. */
function nextSignOf(bytes: Buffer, from: number): number {
  let at = from
  for (let byte = bytes[at]; byte !== undefined; at += 1, byte = bytes[at])
    if (byte === quote || byte === backslash || byte < space) return at
  return at
}

/** A text that was cut off may end within an escape. */
function unescaped(text: string): string {
  if (!text.includes('\\')) return text
  const whole = text.replace(/(?<!\\)((?:\\\\)*)\\(?:u[\da-f]{0,3})?$/i, '$1')
  return String(JSON.parse(`"${whole}"`))
}

const notJson = new Refusal('4xx', 400, 'body_not_json', 'The body must be one JSON object.')
const tooMuch = (what: string): Refusal => new Refusal('4xx', 400, 'body_too_deep', `The body ${what}.`)
const tooDeep = tooMuch(`nests more than ${deepest} levels deep`)
const tooMany = tooMuch(`has more than ${mostValues} values`)
const longKey = tooMuch(`has a field whose name is longer than ${longestKeyBytes} bytes`)
