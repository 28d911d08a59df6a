import type { ServiceName } from './faults.ts'
import type { Touches } from './touches.ts'

/** Checks that a server ends only where something was done to its service. */
export class Ends {
  readonly #touches: Touches
  readonly #lives = new Map<number, { readonly service: ServiceName; readonly since: number }>()

  constructor(touches: Touches) {
    this.#touches = touches
  }

  /** @returns a sentence about each server that is gone without a reason. */
  see(processes: readonly { readonly pid: number; readonly service: ServiceName }[], at: number): string[] {
    const running = new Set(processes.map(({ pid }) => pid))
    const gone = [...this.#lives].filter(([pid]) => !running.has(pid))
    for (const [pid] of gone) this.#lives.delete(pid)
    for (const { pid, service } of processes) if (!this.#lives.has(pid)) this.#lives.set(pid, { service, since: at })
    return gone
      .filter(([, { service, since }]) => !this.#isExplained(service, { since, at }))
      .map(([pid, { service }]) => `Server ${pid} of ${service} ended, and nothing had been done to ${service}.`)
  }

  /** By what was done while it lived, or shortly before it was started. */
  #isExplained(service: ServiceName, { since, at }: { readonly since: number; readonly at: number }): boolean {
    return this.#touches.isTouched(service, at) || this.#touches.isTouchedSince(service, since)
  }
}
