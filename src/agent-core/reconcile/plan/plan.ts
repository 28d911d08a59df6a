import { disagreementAfterMs } from '../cluster-agreement.ts'
import { isModelWanted, isWritable } from './facts.ts'
import { clear, held } from './leaving.ts'
import type { Observation } from './observation.ts'
import { refused, serve, unreadable, withoutModel } from './serve.ts'
import { forget, rest, type Plan } from './step.ts'

/**
 * From the desired and the observed state to the one next step and the sentence that explains it. Pure: its table of tests is the contract.
 */
export function plan(observed: Observation): Plan {
  if (observed.fetch.kind === 'none' || isModelWanted(observed)) return planned(observed)
  return { ...planned({ ...observed, fetch: { kind: 'none' } }), step: { do: 'cancelFetch' } }
}

function planned(observed: Observation): Plan {
  const next = withDisagreement(withNotice(nextStep(observed), observed), observed)
  const mend = next.step.do === 'rest' ? mendOf(observed) : undefined
  if (!mend) return next
  // Something else makes it ready again and again.
  const { mendAt = 0 } = observed.publication
  if (mendAt > observed.now) return { ...next, retryAt: Math.min(next.retryAt ?? Infinity, mendAt), forget: false }
  return { ...next, step: { do: mend }, message: next.message || observed.publication.message, forget: false }
}

/** Where it serves or cannot be started, which a notice may explain, and where it has more memory than it was admitted with. */
function withNotice(next: Plan, { desired, excess }: Observation): Plan {
  if (next.step.do !== 'rest') return next
  const isTold = next.reason === 'Serving' || next.reason === 'StartFailed' || next.reason === 'CrashLooping'
  const grown = next.reason === 'Serving' || next.reason === 'Starting' ? excess : undefined
  const notices = [isTold && desired.kind === 'serve' ? desired.notice : undefined, grown]
  return { ...next, message: [next.message, ...notices].filter((sentence) => sentence !== undefined).join(' ') }
}

/** The controller gets a moment to take up what is published or withdrawn; after that people are told. */
function withDisagreement(next: Plan, { disagreement, now }: Observation): Plan {
  if (!disagreement || next.forget || next.step.do !== 'rest') return next
  const toldAt = disagreement.since + disagreementAfterMs
  if (now < toldAt) return { ...next, retryAt: Math.min(next.retryAt ?? Infinity, toldAt) }
  const reason = next.reason === 'Serving' ? 'ClusterDisagrees' : next.reason
  return { ...next, reason, message: `${next.message} ${disagreement.message}`.trim() }
}

/** Pods are sent to an agent that is gone, or to the server of an InferenceService that is gone, and nothing takes over. */
function mendOf(observed: Observation): 'withdrawDead' | 'unpublish' | undefined {
  const { publication, desired } = observed
  if (desired.kind === 'unknown' || desired.kind === 'excluded') return undefined
  if (publication.shown?.ready !== true || !isWritable(observed)) return undefined
  if (publication.claim === 'dead') return 'withdrawDead'
  return publication.claim === 'previous' ? 'unpublish' : undefined
}

function nextStep(observed: Observation): Plan {
  const { desired } = observed
  switch (desired.kind) {
    case 'unknown':
      return rest('waiting', 'Pending', desired.message)
    case 'gone':
      return clear(observed, 'remove', desired.message) ?? forget()
    case 'notOurs':
    case 'excluded':
      return clear(observed, 'unpublish', desired.message) ?? forget()
    case 'held':
      return held(observed, desired)
    case 'stopped':
      return clear(observed, 'unpublish', desired.message) ?? rest('stopped', desired.reason, desired.message)
    case 'refused':
      return refused(observed, desired)
    case 'unreadable':
      return unreadable(observed, desired)
    case 'modelMissing':
      return withoutModel(observed, desired)
    case 'serve':
      return serve(observed, desired)
  }
}
