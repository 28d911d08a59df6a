import { formatTokens } from '../../../contract/format.ts'
import type { Command } from '../../../contract/commands.ts'
import { isApiError } from '../../kube/api-error.ts'
import type { InferenceServiceSpec } from '../../kube/resources.ts'
import { refKey } from '../../util/object-key.ts'
import { changeInCluster } from './cluster-change.ts'
import { managersOf } from '../managers.ts'
import { done, refused, refusedByCluster, type Outcome } from './results.ts'
import { knownService, type Rooms } from './rooms.ts'

/** In the specification, so that it counts on whatever machine serves it. */
export async function setContextSize(rooms: Rooms, command: Extract<Command, { name: 'setContextSize' }>): Outcome {
  const { service, contextSize } = command
  const known = knownService(rooms, service)
  if (typeof known === 'string') return refused(known)
  const key = refKey(service)
  const context = contextSize === null ? 'the default context' : `a context of ${formatTokens(contextSize)}`
  let before: number | null = null
  try {
    const { changed, service: now } = await changeInCluster(known.session.cluster, service, (_metadata, spec) => {
      before = spec.contextSize ?? null
      return before === contextSize || isOverruled(spec) ? undefined : { spec: { contextSize } }
    })
    if (isOverruled(now.spec.value)) {
      return refused(`The context size of ${key} is set in its spec.extraArgs, which wins: change it there.`)
    }
    if (!changed) return done(`${key} has ${context} already.`)
    rooms.history.add({
      ...{ kind: 'settingsChanged', service, message: `Set to ${context}, by a person.` },
      undo: { name: 'setContextSize', service, contextSize: before },
    })
    const [manager] = managersOf('InferenceService', now.metadata)
    const undone = manager === undefined ? '' : ` ${manager.tool} keeps it (${manager.evidence}) and may set it back.`
    return done(`${key} is started with ${context} (spec.contextSize).${undone}`)
  } catch (error) {
    if (!isApiError(error)) throw error
    return refusedByCluster(`The context size of ${key} is not changed`, error)
  }
}

const isOverruled = ({ extraArgs }: InferenceServiceSpec): boolean =>
  extraArgs.some((argument) => /^(?:-c|--ctx-size)(?:=|$)/.test(argument))
