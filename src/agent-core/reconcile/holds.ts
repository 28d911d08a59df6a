import { z } from 'zod'
import { hold, type Hold } from '../../contract/service.ts'
import { StateFile } from '../state/state-file.ts'

const keptHold = z.object({
  uid: z.string(),
  namespace: z.string(),
  name: z.string(),
  /** URL of the API server: the same names mean other objects elsewhere. */
  cluster: z.string(),
  hold,
})
type KeptHold = z.infer<typeof keptHold>

const holdsFile = z.object({
  schema: z.literal(1),
  /** Since when this machine is paused; null = it is not. */
  pausedSince: z.iso.datetime().nullable(),
  holds: z.array(keptHold),
})

export interface HoldTarget {
  readonly uid: string
  readonly namespace: string
  readonly name: string
  readonly cluster: string
}

/** What a person holds back on this machine although the cluster wants it, kept over restarts of the agent. Writing throws StateFileError. */
export class Holds {
  readonly #file: StateFile<z.infer<typeof holdsFile>>

  private constructor(file: StateFile<z.infer<typeof holdsFile>>) {
    this.#file = file
  }

  /** Throws StateFileError. */
  static async open(file: string): Promise<Holds> {
    return new Holds(
      await StateFile.open({
        file,
        schema: holdsFile,
        initial: { schema: 1, pausedSince: null, holds: [] },
        keeps: 'what was stopped, evicted or paused only on this machine',
      }),
    )
  }

  get notice(): string | undefined {
    return this.#file.notice
  }

  get(uid: string | undefined): Hold | undefined {
    return uid === undefined ? undefined : this.#file.value.holds.find((one) => one.uid === uid)?.hold
  }

  /** The services of a cluster that are held back. */
  in(cluster: string): readonly Omit<HoldTarget, 'cluster'>[] {
    return this.#file.value.holds.filter((one) => one.cluster === cluster)
  }

  set(target: HoldTarget, wanted: Hold): Promise<void> {
    return this.#change((holds) => [...holds.filter(({ uid }) => uid !== target.uid), { ...target, hold: wanted }])
  }

  drop(uid: string): Promise<void> {
    return this.#change((holds) => (this.get(uid) ? holds.filter((one) => one.uid !== uid) : holds))
  }

  get pausedSince(): string | undefined {
    return this.#file.value.pausedSince ?? undefined
  }

  pause(since: string | undefined): Promise<void> {
    return this.#file.update((value) => ({ ...value, pausedSince: since ?? null }))
  }

  #change(change: (holds: KeptHold[]) => KeptHold[]): Promise<void> {
    return this.#file.update((value) => {
      const holds = change(value.holds)
      return holds === value.holds ? value : { ...value, holds }
    })
  }
}
