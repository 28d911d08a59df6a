import type { LinkError, Listener } from '../../../src/contract/client.ts'

/** Keeps what it is told. */
export class Heard<T> implements Listener<T> {
  readonly items: T[] = []
  readonly ends: LinkError[] = []
  readonly next = (item: T): void => void this.items.push(item)
  readonly end = (error: LinkError): void => void this.ends.push(error)
}
