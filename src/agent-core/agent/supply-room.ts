import { holdByProcess } from '../power/awake/awake-process.ts'
import type { HoldAwake } from '../power/awake/awake-hold.ts'
import { LatelyWorking } from '../power/awake/lately-working.ts'
import { StayAwake } from '../power/awake/stay-awake.ts'
import { SupplyWatch } from '../power/awake/supply-watch.ts'
import type { SupplyView } from '../../contract/power.ts'
import type { LastingRooms } from './lasting-rooms.ts'
import type { Silence } from '../reconcile/plan/observation.ts'
import type { RoomContext } from './room-context.ts'

/** What this machine runs on, and what follows from it. */
export interface SupplyRoom {
  /** Of every service. */
  readonly silence: () => Silence | undefined
  readonly settingsChanged: () => void
  /** For one look at the snapshot. */
  readonly fresh: () => Promise<void>
  /** The system says that it runs on something else now. */
  readonly supplyChanged: () => Promise<void>
}

const pausedSentence =
  'This machine runs on battery and is set to pause then: its models stay in memory, and no requests are sent here.'

export async function supplyRoom(
  { options, ends, snapshots, settings, session }: RoomContext,
  { servers }: Pick<LastingRooms, 'servers'>,
): Promise<SupplyRoom> {
  const { platform, log, holdAwake, supplyEveryMs } = options
  const isPaused = () => settings().pauseOnBattery && supply.current?.source === 'battery'
  const changed = (isOtherSource: boolean) => {
    awake.review()
    if (isOtherSource) session()?.reconciler.enqueueAll()
    snapshots.changed()
  }
  // A Linux that says nothing of a battery has none; every Mac says what it runs on.
  const source = () => supply.current?.source ?? (platform.name === 'linux' ? 'mains' : undefined)
  const supply = ends.use(
    new SupplyWatch({
      platform,
      log,
      onChange: changed,
      isNeeded: () => settings().pauseOnBattery || awake.dependsOnSupply || snapshots.hasReaders,
      ...(supplyEveryMs !== undefined && { everyMs: supplyEveryMs }),
    }),
  )
  const program = platform.awakeProgram()
  const holdByProgram: HoldAwake | undefined = program && ((onEnded) => holdByProcess(program, onEnded))
  const awake = ends.use(
    new StayAwake({
      policy: () => settings().sleepPolicy,
      source,
      servers,
      working: new LatelyWorking({ processGroup: (groupId) => platform.processGroup(groupId) }),
      hold: holdAwake ?? holdByProgram,
      log,
      onChange: () => {
        supply.review()
        snapshots.changed()
      },
    }),
  )
  const view = (): SupplyView | undefined => {
    const { charge, lowPowerMode = false } = supply.current ?? {}
    const isKnown = supply.current !== undefined || awake.isKeptAwake
    const known = source()
    const state = { lowPowerMode, isPaused: isPaused(), isKeptAwake: awake.isKeptAwake }
    return isKnown ? { ...(known && { source: known }), ...state, ...(charge !== undefined && { charge }) } : undefined
  }
  snapshots.register(() => ({ supply: view(), notices: isPaused() ? [pausedSentence] : [] }))
  snapshots.onLooker(() => supply.review())
  // Before anything is published.
  await supply.look()
  return {
    silence: () => (isPaused() ? 'battery' : undefined),
    settingsChanged: () => {
      supply.review()
      changed(true)
    },
    fresh: () => supply.fresh(),
    supplyChanged: () => supply.changed(),
  }
}
