import { LinkError, type Unsubscribe } from '../src/contract/client.ts'
import type { ServiceFigures } from '../src/contract/service.ts'
import type { AgentSnapshot } from '../src/contract/snapshot.ts'
import type { AgentDoor } from '../src/serve/agent-door.ts'
import { sampleService, sampleSnapshot } from '../test/support/sample-snapshot.ts'

/** What a window shows: as many models as asked for, each with all its figures, all of which change each time that it is told to. */
export class ShownAgent implements AgentDoor {
  readonly #models: number
  readonly #listeners = new Set<() => void>()
  #snapshot: AgentSnapshot

  constructor(models: number) {
    this.#models = models
    this.#snapshot = snapshotOf(models, 1)
  }

  change(): void {
    this.#snapshot = snapshotOf(this.#models, this.#snapshot.revision + 1)
    for (const listener of this.#listeners) listener()
  }

  get(): AgentSnapshot {
    return this.#snapshot
  }

  look(): Promise<AgentSnapshot> {
    return Promise.resolve(this.#snapshot)
  }

  subscribe(listener: () => void): Unsubscribe {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  command(): Promise<never> {
    return Promise.reject(notAnswered())
  }

  query(): Promise<never> {
    return Promise.reject(notAnswered())
  }

  stream(): Unsubscribe {
    throw notAnswered()
  }
}

const notAnswered = () => new LinkError('refused', 'Nothing but the snapshot is measured.')

function snapshotOf(models: number, revision: number): AgentSnapshot {
  const names = Array.from({ length: models }, (_, index) => `model-${index + 1}`)
  const services = names.map((name) => {
    const message = `Serves requests, as change ${revision} says.`
    return sampleService({ uid: name, name, revision, message, address: '192.0.2.1:8080' })
  })
  const figures = names.map((name, index): [string, ServiceFigures] => [
    name,
    {
      footprintBytes: 4e9 + (revision + index) * 16e6,
      powerShareWatts: ((revision + index) % 200) / 10,
      runtime: { state: 'reported', generatedTokensPerSecond: (revision + index) % 90, requestsRunning: revision % 4 },
    },
  ])
  return sampleSnapshot({
    revision,
    now: new Date().toISOString(),
    services,
    figures: Object.fromEntries(figures),
    power: { state: 'measuring', message: 'Measured.' },
    powerFigures: { combinedWatts: revision % 60 },
  })
}
