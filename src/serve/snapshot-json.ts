import type { AgentSnapshot } from '../contract/snapshot.ts'

/** A part that did not change is the same object in the next snapshot: its JSON is made once for all readers. */
const made = new WeakMap<object, string>()

/** As `JSON.stringify`, of a snapshot whose parts nobody changes. */
export function snapshotJson(snapshot: AgentSnapshot): string {
  const fields = Object.entries(snapshot)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${JSON.stringify(name)}:${Array.isArray(value) ? listJson(value) : partJson(value)}`)
  return `{${fields.join(',')}}`
}

const listJson = (list: readonly unknown[]): string => `[${list.map(partJson).join(',')}]`

function partJson(part: unknown): string {
  if (typeof part !== 'object' || part === null) return JSON.stringify(part)
  const known = made.get(part)
  if (known !== undefined) return known
  const json = JSON.stringify(part)
  made.set(part, json)
  return json
}
