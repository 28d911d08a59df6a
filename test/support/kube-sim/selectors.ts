import { isObject, type Json, type KubeObject } from './json.ts'
import type { Kind } from './kinds.ts'
import { badRequest } from './status-error.ts'

export type Selects = (object: KubeObject) => boolean

/** `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Throws a 400 StatusError. */
export function parseLabelSelector(text: string): Selects {
  const requirements = text
    .split(/,(?![^(]*\))/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map(parseRequirement)
  return (object) => requirements.every((meets) => meets(object.metadata.labels ?? {}))
}

type Labels = Readonly<Record<string, string>>

function parseRequirement(text: string): (labels: Labels) => boolean {
  const set = /^(\S+)\s+(in|notin)\s*\(([^)]*)\)$/.exec(text)
  if (set) {
    const [, key = '', operator, list = ''] = set
    const values = list.split(',').map((value) => value.trim())
    const isIn = (labels: Labels) => labels[key] !== undefined && values.includes(labels[key])
    return operator === 'in' ? isIn : (labels) => !isIn(labels)
  }
  const equality = /^([^\s=!]+)\s*(==|=|!=)\s*(\S*)$/.exec(text)
  if (equality) {
    const [, key = '', operator, value = ''] = equality
    return operator === '!=' ? (labels) => labels[key] !== value : (labels) => labels[key] === value
  }
  const absent = /^!\s*([^\s=!]+)$/.exec(text)?.[1]
  if (absent !== undefined) return (labels) => labels[absent] === undefined
  if (/^[^\s=!()]+$/.test(text)) return (labels) => labels[text] !== undefined
  throw badRequest(`unable to parse requirement: ${JSON.stringify(text)}`)
}

/** `metadata.name=x` and its like; Events may be selected by every field that is a text. Throws a 400 StatusError. */
export function parseFieldSelector(text: string, kind: Kind): Selects {
  const terms = text
    .split(',')
    .filter((part) => part !== '')
    .map((part) => {
      const [, path = '', operator = '', value = ''] = /^([^=!]+)(==|=|!=)(.*)$/.exec(part) ?? []
      if (operator === '') throw badRequest(`invalid selector: '${part}'; can't understand '${part}'`)
      const known = path === 'metadata.name' || path === 'metadata.namespace' || kind.kind === 'Event'
      if (!known) throw badRequest(`field label not supported: ${path}`)
      return { path: path.split('.'), equal: operator !== '!=', value }
    })
  return (object) => terms.every(({ path, equal, value }) => (textAt(object, path) === value) === equal)
}

function textAt(object: Json, path: readonly string[]): string {
  let current: Json | undefined = object
  for (const name of path) current = isObject(current) ? current[name] : undefined
  return typeof current === 'string' ? current : ''
}
