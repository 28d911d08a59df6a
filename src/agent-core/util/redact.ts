/** What stands in the place of a secret. */
export const redacted = '[redacted]'

const secretWords = new Set([
  'token',
  'authorization',
  'password',
  'passwd',
  'secret',
  'bearer',
  'credential',
  'credentials',
  'apikey',
])

/** A field of this name carries a secret: `token`, `hfToken`, `Authorization`, `client_secret`, but not `tokensPerSecond`. */
export function isSecretName(name: string): boolean {
  const words = name
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z\d]+/)
  return words.some((word) => secretWords.has(word)) || /api[_-]?key/i.test(name)
}

/** The flags of servers and tools whose value is a secret, or has some in it. */
const secretFlags = ['api-key', 'hf-token', 'hft', 'token', 'password', 'mcp-servers-json'].join('|')
const secretFlag = new RegExp(`^--?(?:${secretFlags})$`)
const flagAndSecret = new RegExp(`(--?(?:${secretFlags})(?:=|\\s+))(?:"[^"]*"|'[^']*'|\\S+)`, 'g')

/** The word after it in a command line is a secret. */
export const isSecretFlag = (word: string): boolean => secretFlag.test(word)

/** Credentials inside a sentence or an address: tokens, `user:password@`, signed query parameters, private keys, as their makers write them (2026-11). Linear in the length. */
export function redactText(text: string): string {
  const withoutTokens = text
    .replace(/\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi, `$1 ${redacted}`)
    .replace(/(:\/\/)[^/?#\s@]+@/g, `$1${redacted}@`)
    .replace(/\b(?:hf_|sk-|ghp_|github_pat_|glpat-|xox[bp]-|AKIA)[\w-]{16,}/g, redacted)
    .replace(/(?<![\w.-])eyJ[\w-]{8,}\.[\w.-]{8,}/g, redacted)
    .replace(/-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?/g, redacted)
    .replace(flagAndSecret, `$1${redacted}`)
  return withoutNamedSecrets(withoutSecretParameters(withoutTokens))
}

const secretParameter = /token|signature|secret|password|credential|api_?key|sig/i

/** Each parameter is looked at by itself, since a name may be as long as the text. */
function withoutSecretParameters(text: string): string {
  let result = ''
  let end = 0
  for (const { 0: opening, 1: name = '', index } of text.matchAll(/[?&]([^=&?\s]*)=/g)) {
    if (index < end || !secretParameter.test(name)) continue
    const from = index + opening.length
    const length = text.slice(from).search(/[&\s"']|$/)
    if (length === 0) continue
    result += text.slice(end, from) + redacted
    end = from + length
  }
  return result + text.slice(end)
}

/** `NAME=value`, `NAME: value` and `"NAME":"value"`: the value goes where the name is one of a secret. */
const withoutNamedSecrets = (text: string): string =>
  text.replace(
    /(?<![\w-])([\w-]{1,80})("?\s{0,3}[:=]\s{0,3})("[^"\n]*"|'[^'\n]*'|[^\s"',;&}\]]+)/g,
    (whole, name: string, between: string, value: string) =>
      isSecretName(name) && !isPlainNumber(value) && !value.startsWith(redacted.slice(0, 1))
        ? `${name}${between}${/^["']/.test(value) ? `${value[0] ?? ''}${redacted}${value[0] ?? ''}` : redacted}`
        : whole,
  )

const isPlainNumber = (text: string): boolean => /^(?:\d+(?:\.\d+)?|true|false|null|none)$/i.test(text)

/** A report is pasted in public, so it names no person. A home that is the root of all files names none either. */
export function withoutHome(text: string, homeDir: string): string {
  const home = homeDir.replace(/(?<!\/)\/+$/, '')
  if (home === '') return text
  // What only begins like it is another person's home.
  return text.split(home).reduce((before, after) => `${before}${/^[\w.-]/.test(after) ? home : '~'}${after}`)
}
