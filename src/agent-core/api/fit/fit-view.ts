import { sentence } from '../../../contract/clean-text.ts'
import type { FittedModelView, FitVerdict } from '../../../contract/fit.ts'
import { formatBytes } from '../../../contract/format.ts'
import type { SizingView } from '../../../contract/memory.ts'
import type { Estimate } from '../../memory/estimate/items.ts'
import type { ServerChange, WayToFit } from '../../memory/ways-to-fit.ts'
import { refKey } from '../../util/object-key.ts'
import { wayView } from './way-view.ts'
import { fitOf, type Fit } from './fit-of.ts'
import type { SizedLook } from './sized-look.ts'

export interface Judging {
  readonly estimateWith: (change: ServerChange) => Estimate
  readonly machine: SizingView
}

/** Of what a model's file says: it is somebody else's text. */
const maxTextBytes = 200
const maxNoteBytes = 1_000

/** What a person is shown of a model that is not applied yet. */
export function fittedView(
  look: SizedLook,
  fit: Fit,
  judging: Judging,
): Omit<FittedModelView, 'kind' | 'source' | 'files' | 'diskProblem'> {
  const { header, mmproj, parameters, isHere } = look
  const { estimate, room, ways } = fit
  const { machine } = judging
  const unload = fit.decision.kind === 'whenStopped' ? fit.decision.stop : []
  const verdict = verdictOf(fit)
  const { architecture, quantization, contextLength } = header
  return {
    ...(quantization !== undefined && { quantization: sentence(quantization, maxTextBytes) }),
    ...(architecture !== '' && { architecture: sentence(architecture, maxTextBytes) }),
    ...(parameters > 0 && Number.isSafeInteger(parameters) && { parameters }),
    sizeBytes: look.fileBytes + (mmproj?.fileBytes ?? 0),
    ...(contextLength !== undefined && { trainedContext: contextLength }),
    isStored: isHere,
    ...(estimate.contextTokens !== undefined && { contextSize: estimate.contextTokens }),
    ...(estimate.slots !== undefined && { slots: estimate.slots }),
    items: estimate.items,
    totalBytes: estimate.total,
    ...(estimate.guess !== undefined && { guess: sentence(estimate.guess, maxNoteBytes) }),
    notes: [...look.notes, ...estimate.notes, ...obstacles(machine)].map((note) => sentence(note, maxNoteBytes)),
    verdict,
    message: messageOf(fit, verdict),
    unload: unload.map(({ namespace, name, committedBytes }) => ({ namespace, name, freesBytes: committedBytes })),
    ways: ways.map(wayView),
    contexts: contextsOf(contextLength, judging),
    room: {
      budgetBytes: room.budgetBytes,
      committedBytes: room.committedBytes,
      availableBytes: machine.availableBytes,
    },
  }
}

const verdictOf = ({ decision, ways }: Pick<Fit, 'decision' | 'ways'>): FitVerdict =>
  decision.kind === 'fits'
    ? 'fits'
    : decision.kind === 'whenStopped'
      ? 'afterUnloading'
      : ways.some(raisesBudget)
        ? 'afterRaising'
        : 'doesNotFit'

const raisesBudget = ({ kind }: WayToFit): boolean => kind === 'budget'

function messageOf({ decision, estimate: { total } }: Fit, verdict: FitVerdict): string {
  const needs = `needs ${formatBytes(total)}`
  switch (decision.kind) {
    case 'fits':
      return `It fits: it ${needs}.`
    case 'whenStopped': {
      const freed = decision.stop.reduce((sum, { committedBytes }) => sum + committedBytes, 0)
      const names = decision.stop.map(refKey).join(', ')
      return `It ${needs} and fits when ${names} ${decision.stop.length === 1 ? 'leaves' : 'leave'} memory, which frees ${formatBytes(freed)}.`
    }
    case 'not': {
      const { budget, available } = decision.shortage
      const missing = [
        ...(budget > 0 ? [`${formatBytes(budget)} more than the budget`] : []),
        ...(available > 0 ? [`${formatBytes(available)} more than this machine has available`] : []),
      ].join(' and ')
      const alone = `It ${needs}, even alone ${missing}`
      return verdict === 'afterRaising' ? `${alone}: it fits with a larger budget.` : `${alone}, so it does not fit.`
    }
  }
}

/** What keeps it from starting at once although it fits. */
function obstacles({ pressure, waiting }: SizingView): string[] {
  return [
    ...(pressure === 'critical' ? ['Memory pressure is critical: nothing new is started until it has passed.'] : []),
    ...(waiting.length > 0
      ? [`Others wait for memory already (${waiting.join(', ')}): it is given by priority, then by age.`]
      : []),
  ]
}

/** Of a model whose training is not told. */
const assumedLongest = 32_768
const shortest = 512
const schemaLongest = 2_097_152

/** Four steps to each doubling, and the length that the model was trained with. */
function contextsOf(
  contextLength: number | undefined,
  { estimateWith, machine }: Judging,
): FittedModelView['contexts'] {
  if (estimateWith({}).contextTokens === undefined) return []
  const longest = Math.min(schemaLongest, Math.max(shortest, contextLength ?? assumedLongest))
  const steps: number[] = []
  for (let octave = shortest; octave < longest; octave *= 2) {
    for (const part of [1, 1.25, 1.5, 1.75]) if (octave * part < longest) steps.push(octave * part)
  }
  return [...steps, longest].flatMap((contextSize) => {
    const estimate = estimateOr(() => estimateWith({ contextTokens: contextSize }))
    if (!estimate) return []
    const { total, items } = estimate
    const verdict = verdictOf(fitOf(() => estimate, {}, machine))
    return [{ contextSize, totalBytes: total, kvBytes: items.kv, verdict }]
  })
}

/** Undefined where the numbers are beyond any computer. */
function estimateOr(estimate: () => Estimate): Estimate | undefined {
  try {
    return estimate()
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}
