import { z } from 'zod'
import {
  cacheType,
  contextSize,
  modelSource,
  namespaceName,
  parallelSlots,
  quantizationName,
  secretName,
} from './names.ts'
import { memoryItems, wayToFit } from './service.ts'

const bytes = z.number().nonnegative()

/** Whether a model that no service asks for yet would fit beside what runs; only headers are fetched for it. */
export const fitQuery = z.object({
  name: z.literal('fit'),
  /** As in `spec.source` of a Model, or a name of the catalogue. */
  source: modelSource,
  quantization: quantizationName.optional(),
  /** Where it is to be applied, which decides about logins; absent = the one that the agent watches, else `default`. */
  namespace: namespaceName.optional(),
  /** Name of a Secret of that namespace whose token opens a private source; no answer contains the token. */
  sourceSecret: secretName.optional(),
  contextSize: contextSize.optional(),
  parallelSlots: parallelSlots.optional(),
  cacheType: cacheType.optional(),
})

/** One of the models of a repository. */
export const fileChoice = z.object({
  /** Path in the repository; for a model in several parts that of the first part. */
  path: z.string(),
  /** Names this one: to be asked about and applied in place of the repository. */
  source: z.string(),
  /** Size of all parts, in bytes. */
  sizeBytes: bytes,
  quantization: z.string().optional(),
  parts: z.int().positive(),
})
export type FileChoiceView = z.infer<typeof fileChoice>

/** `afterUnloading`: when the services in `unload` leave memory. `afterRaising`: with the budget that one of `ways` names. */
export const fitVerdicts = ['fits', 'afterUnloading', 'afterRaising', 'doesNotFit'] as const
export const fitVerdict = z.enum(fitVerdicts)
export type FitVerdict = z.infer<typeof fitVerdict>

const fittedModel = z.object({
  kind: z.literal('model'),
  /** To be applied: that of the catalogue where its name was asked about. */
  source: z.string(),
  quantization: z.string().optional(),
  architecture: z.string().optional(),
  /** How many weights it has. */
  parameters: z.number().nonnegative().optional(),
  /** Bytes that are to be fetched. */
  sizeBytes: bytes,
  /** Tokens it was trained with at most. */
  trainedContext: z.number().nonnegative().optional(),
  /** Nothing has to be fetched. */
  isStored: z.boolean(),
  /** Set where the disk has no room for it: one sentence. */
  diskProblem: z.string().optional(),
  /** The other models of the same repository too; empty where the source names one file. */
  files: z.array(fileChoice),
  /** As it was sized. */
  contextSize: z.number().nonnegative().optional(),
  slots: z.int().positive().optional(),
  items: memoryItems,
  totalBytes: bytes,
  /** Set where something had to be assumed: one sentence. */
  guess: z.string().optional(),
  /** What a person should know, one sentence each. */
  notes: z.array(z.string()),
  verdict: fitVerdict,
  /** The verdict as a sentence. */
  message: z.string(),
  /** Services without which it fits, the fewest; empty where it fits as it is, or not even then. */
  unload: z.array(z.object({ namespace: z.string(), name: z.string(), freesBytes: bytes })),
  /** Empty where it fits. */
  ways: z.array(wayToFit),
  /** What a slider moves over, rising: at each the figures are exact. Empty where the context changes nothing that is known. */
  contexts: z.array(
    z.object({ contextSize: z.int().positive(), totalBytes: bytes, kvBytes: bytes, verdict: fitVerdict }),
  ),
  /** What it is judged by. */
  room: z.object({ budgetBytes: bytes, committedBytes: bytes, availableBytes: bytes }),
})

export const fitView = z.discriminatedUnion('kind', [
  /** The source names several models: ask about the `source` of one. */
  z.object({ kind: z.literal('choose'), message: z.string(), files: z.array(fileChoice) }),
  fittedModel,
])
export type FitView = z.infer<typeof fitView>
export type FittedModelView = z.infer<typeof fittedModel>
