/** What a manifest is made of. */
export type Manifest = { readonly [key: string]: string | number | boolean | Manifest }

/** Documents for `kubectl apply -f -`. */
export const yamlOf = (documents: readonly Manifest[]): string =>
  documents.map((document) => `${linesOf(document, '').join('\n')}\n`).join('---\n')

function linesOf(manifest: Manifest, indent: string): string[] {
  return Object.entries(manifest).flatMap(([key, value]) => {
    const name = `${indent}${scalar(key)}:`
    return typeof value === 'object'
      ? [name, ...linesOf(value, `${indent}  `)]
      : [`${name} ${typeof value === 'string' ? scalar(value) : String(value)}`]
  })
}

/** Between double quotes wherever a plain word could be read as anything else, with everything escaped that is not plainly visible. */
function scalar(text: string): string {
  if (/^[A-Za-z][\w./-]*$/.test(text) && !reserved.test(text)) return text
  const escaped = text.replace(/["\\]|[^\x20-\x7e]/gu, (character) => {
    if (character === '"' || character === '\\') return `\\${character}`
    const code = character.codePointAt(0) ?? 0
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`
  })
  return `"${escaped}"`
}

/** Words of YAML 1.1, which Kubernetes' tools read. */
const reserved = /^(?:y|yes|n|no|true|false|on|off|null)$/i
