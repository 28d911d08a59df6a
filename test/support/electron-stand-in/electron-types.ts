import { EventEmitter } from 'node:events'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

/** What Electron's own types say that it takes: a name that is not among them is a mistake that a real one passes over in silence. */
const types = (() => {
  let read: string | undefined
  return () => (read ??= readFileSync(createRequire(import.meta.url).resolve('electron/electron.d.ts'), 'utf8'))
})()

const known = new Map<string, ReadonlySet<string>>()

/** The properties of an interface and of those that it extends. */
function propertiesOf(name: string): ReadonlySet<string> {
  const before = known.get(name)
  if (before) return before
  const [, parent, body] =
    new RegExp(`interface ${name}(?: extends (\\w+))? \\{\\n([\\s\\S]*?)\\n  \\}`).exec(types()) ?? []
  if (body === undefined) throw new Error(`Electron has no type ${name}.`)
  const own = [...body.matchAll(/^ {4}(\w+)\??:/gm)].map(([, property = '']) => property)
  const found = new Set([...own, ...(parent === undefined ? [] : propertiesOf(parent))])
  known.set(name, found)
  return found
}

export function refuseUnknown(type: string, given: object): void {
  const unknown = Object.keys(given).filter((name) => !propertiesOf(type).has(name))
  if (unknown.length > 0) throw new TypeError(`${type} knows no ${unknown.join(', ')}.`)
}

/** The texts that a property of an interface may be. */
export function choicesOf(type: string, property: string): ReadonlySet<string> {
  const key = `${type}.${property}`
  const before = known.get(key)
  if (before) return before
  const body = new RegExp(`interface ${type}\\b[^{]*\\{\\n([\\s\\S]*?)\\n  \\}`).exec(types())?.[1] ?? ''
  const line = new RegExp(`^ {4}${property}\\??: (.*);$`, 'm').exec(body)?.[1] ?? ''
  const found = new Set([...line.matchAll(/'([^']+)'/g)].map(([, choice = '']) => choice))
  known.set(key, found)
  return found
}

/** A text of another choice than the types have, where one is given at all. */
export function refuseOtherChoice(type: string, property: string, given: string | undefined): void {
  if (given === undefined || choicesOf(type, property).has(given)) return
  throw new TypeError(`${property} of ${type} is none of ${[...choicesOf(type, property)].join(', ')}: ${given}`)
}

const knownEvents = new Map<string, ReadonlySet<string>>()

/** The events of a class or module, and of what it extends. */
function eventsOf(name: string): ReadonlySet<string> {
  const before = knownEvents.get(name)
  if (before) return before
  const [, parent, body] =
    new RegExp(`(?:class|interface) ${name}(?: extends (\\w+)[\\w.]*)? \\{\\n([\\s\\S]*?)\\n  \\}`).exec(types()) ?? []
  const own = [...(body ?? '').matchAll(/^ {4}on\(event: '([^']+)'/gm)].map(([, event = '']) => event)
  const inherited = parent === undefined || /^Node/.test(parent) ? [] : eventsOf(parent)
  const found = new Set([...own, ...inherited])
  knownEvents.set(name, found)
  return found
}

/** Emits events of Electron's class or module of this name. Who waits for another one waits for ever, so it is refused. */
export class ElectronEmitter extends EventEmitter {
  readonly #name: string
  /** Of the stand-in itself. */
  readonly #others: readonly string[]

  constructor(name: string, others: readonly string[] = []) {
    super()
    this.#name = name
    this.#others = others
  }

  override on(...[event, listener]: Parameters<EventEmitter['on']>): this {
    const name = String(event)
    // `error` is what Node itself listens for besides.
    if (!eventsOf(this.#name).has(name) && !['error', ...this.#others].includes(name)) {
      throw new TypeError(`${this.#name} has no event ${name}.`)
    }
    return super.on(event, listener)
  }
}

/** As Electron's native side takes whole numbers: no fraction, and no -0. */
export function wholeNumber(value: unknown, index: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || Object.is(value, -0)) {
    const shown = Object.is(value, -0) ? '-0' : String(value)
    throw new TypeError(`Error processing argument at index ${index}, conversion failure from ${shown}`)
  }
  return value
}
