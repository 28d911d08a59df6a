import type { z } from 'zod'
import { trimmed } from './raw-object.ts'

/** A spec that does not parse is kept as the sentence that says why, so that the object is not lost, and nothing new is begun for it. */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false
      readonly message: string
      /** What of it can be read; a field that cannot is as if it were not there. */
      readonly value: T
      /** The fields that cannot be read, such as `hardware.accelerator`. */
      readonly unread: readonly string[]
    }

interface Named {
  readonly namespace: string
  readonly name: string
}

export function parseSpec<T>(kind: string, { namespace, name }: Named, schema: z.ZodType<T>, raw: unknown): Parsed<T> {
  const spec = trimmed(schema, raw ?? {})
  const result = schema.safeParse(spec)
  if (result.success) return { ok: true, value: result.data }
  const [issue] = result.error.issues
  const { value, unread } = readableOf(schema, spec)
  const field = ['spec', ...(issue?.path ?? [])].join('.')
  return {
    ok: false,
    message: `${kind} ${namespace}/${name} is not usable: ${field}: ${issue?.message ?? 'is not valid'}. Correct it and apply it again.`,
    value,
    unread,
  }
}

/** Removes one unreadable field after the other from a trimmed spec, which is a copy of our own; a list is removed as a whole. */
function readableOf<T>(schema: z.ZodType<T>, rest: unknown): { readonly value: T; readonly unread: readonly string[] } {
  const unread: string[] = []
  for (;;) {
    const result = schema.safeParse(rest)
    if (result.success) return { value: result.data, unread }
    const path = result.error.issues[0]?.path ?? []
    const end = path.findIndex((part) => typeof part !== 'string')
    const field = leaveOut(rest, (end === -1 ? path : path.slice(0, end)).map(String))
    if (!field) return { value: schema.parse({}), unread: [...unread, ''] }
    unread.push(field.join('.'))
  }
}

/** Where a required field is missing, the object that requires it is removed. Returns the field left out; undefined where there is none. */
function leaveOut(object: unknown, field: readonly string[]): readonly string[] | undefined {
  const name = field.at(-1)
  if (name === undefined) return undefined
  const place = field.slice(0, -1)
  const inside = place.reduce((outer, key) => (isObject(outer) ? Reflect.get(outer, key) : undefined), object)
  if (!isObject(inside) || !Object.hasOwn(inside, name)) return leaveOut(object, place)
  Reflect.deleteProperty(inside, name)
  return field
}

export const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
