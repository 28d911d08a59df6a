import { isDeepStrictEqual } from 'node:util'
import { applyModel } from './apply-model.ts'
import { reloadKubeconfig, selectContext } from './cluster-commands.ts'
import { failed, type Known, knownService, type Outcome, refused, type Rooms } from './command.ts'
import { deleteModel } from './delete-model.ts'
import { cancelPull, pruneModels, pullModel, removeModel } from './model-commands.ts'
import { pauseOrResume, resync, shutdown } from './node-commands.ts'
import {
  bringBack,
  cancelDownload,
  evict,
  protect,
  restart,
  setContextSize,
  skipDrain,
  start,
  stop,
} from './service-commands.ts'
import { setHostAddress, updateSettings } from './settings.ts'
import { messageOf } from '../util/message-of.ts'
import { refKey } from '../util/object-key.ts'
import { steadyNow } from '../util/steady-clock.ts'
import type { Command, CommandRequest, CommandResult, ServiceRef } from '../../contract/commands.ts'

/** A client that lost its connection asks again soon, or not at all. */
const rememberedMs = 3_600_000
const maxRemembered = 1_000
/** Commands at once; more come only from a broken client. */
const maxUnderWay = 200

interface Remembered {
  readonly command: Command
  readonly result: Promise<CommandResult>
  readonly at: number
  isUnderWay: boolean
}

/**
 * Carries out what clients ask for. The same request id is carried out once and answered the same, also while it is under way; what
 * touches the same thing is carried out one after the other, in the order in which it came.
 */
export class Commands {
  readonly #rooms: Rooms
  readonly #remembered = new Map<string, Remembered>()
  readonly #latest = new Map<string, Promise<unknown>>()
  #underWay = 0

  constructor(rooms: Rooms) {
    this.#rooms = rooms
  }

  /** Never rejects. */
  run({ requestId, command }: CommandRequest): Promise<CommandResult> {
    const known = this.#remembered.get(requestId)
    if (known) {
      return isDeepStrictEqual(known.command, command)
        ? known.result
        : Promise.resolve(refused('This request id was used for another command; give each command its own id.'))
    }
    if (this.#underWay >= maxUnderWay) {
      return Promise.resolve(refused(`${maxUnderWay} commands are already under way; wait for their results.`))
    }
    this.#underWay += 1
    const result = this.#inOrder(subjectOf(command), () => this.#carryOut(command))
    const entry: Remembered = { command, result, at: steadyNow(), isUnderWay: true }
    this.#remembered.set(requestId, entry)
    void result.then(() => {
      entry.isUnderWay = false
      this.#underWay -= 1
      this.#forgetOld()
    })
    return result
  }

  async #carryOut(command: Command): Promise<CommandResult> {
    const { log } = this.#rooms
    try {
      const carryOut: (rooms: Rooms, command: never) => CommandResult | Outcome = handlers[command.name]
      const result = await carryOut(this.#rooms, command as never)
      log.info('command', { command: command.name, outcome: result.outcome, message: result.message })
      return result
    } catch (error) {
      log.error('command failed', { command: command.name, error })
      return failed(`It failed: ${messageOf(error)}`)
    }
  }

  #inOrder(subject: string | undefined, work: () => Promise<CommandResult>): Promise<CommandResult> {
    if (subject === undefined) return work()
    const result = (this.#latest.get(subject) ?? Promise.resolve()).then(work)
    this.#latest.set(subject, result)
    void result.then(() => {
      if (this.#latest.get(subject) === result) this.#latest.delete(subject)
    })
    return result
  }

  /** Oldest first; a command that is under way is never removed. */
  #forgetOld(): void {
    const oldest = steadyNow() - rememberedMs
    for (const [id, { at, isUnderWay }] of this.#remembered) {
      if (at >= oldest && this.#remembered.size <= maxRemembered) return
      if (!isUnderWay) this.#remembered.delete(id)
    }
  }
}

/** What must not be done at the same time; undefined = it waits for nothing. */
function subjectOf(command: Command): string | undefined {
  if (command.name === 'shutdown' || command.name === 'resync' || command.name === 'skipDrain') return undefined
  if (command.name === 'cancelPull' || command.name === 'pullModel') return undefined
  if (command.name === 'removeModel' || command.name === 'pruneModels') return 'models'
  if (command.name === 'applyModel') return `service ${refKey(command.application)}`
  return 'service' in command ? `service ${refKey(command.service)}` : 'agent'
}

type Handlers = {
  readonly [Name in Command['name']]: (
    rooms: Rooms,
    command: Extract<Command, { readonly name: Name }>,
  ) => CommandResult | Outcome
}

const handlers: Handlers = {
  stop: onService(stop),
  start: onService(start),
  restart: onService(restart),
  evict: onService(evict),
  bringBack: onService(bringBack),
  protect: onService(protect),
  cancelDownload: onService(cancelDownload),
  skipDrain: onService(skipDrain),
  deleteModel: onService(deleteModel),
  setContextSize: onService(setContextSize),
  pauseNode: (rooms) => pauseOrResume(rooms, 'pauseNode'),
  resumeNode: (rooms) => pauseOrResume(rooms, 'resumeNode'),
  ...{ resync, shutdown, selectContext, reloadKubeconfig, setHostAddress, updateSettings },
  ...{ applyModel, pullModel, cancelPull, removeModel, pruneModels },
}

/** Carries out what concerns a service that is shown here. */
function onService<Asked extends Command & { readonly service: ServiceRef }>(
  carryOut: (rooms: Rooms, known: Known, command: Asked) => CommandResult | Outcome,
): (rooms: Rooms, command: Asked) => CommandResult | Outcome {
  return (rooms, command) => {
    const known = knownService(rooms, command.service)
    return typeof known === 'string' ? refused(known) : carryOut(rooms, known, command)
  }
}
