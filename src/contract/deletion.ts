import { z } from 'zod'

/** What brings an object back, or changes it again, when somebody deletes it by hand. */
export const manager = z.object({
  object: z.enum(['InferenceService', 'Model']),
  /** Such as `Argo CD`. */
  tool: z.string(),
  /** Which label, annotation or owner says so. */
  evidence: z.string(),
})
export type ManagerView = z.infer<typeof manager>

/** What `deleteModel` would delete, as of now. */
export const deletionView = z.object({
  /** Of the InferenceService: to be sent along, so that nothing else is deleted than what was asked about. */
  uid: z.string(),
  /** Absent where its Model is not there. */
  model: z
    .object({
      name: z.string(),
      isDeleted: z.boolean(),
      /** Why it goes, or stays: one sentence. */
      message: z.string(),
    })
    .optional(),
  /** Empty where no tool is known to keep them. */
  managers: z.array(manager),
  /** What a person is asked before: one sentence or two. */
  message: z.string(),
})
export type DeletionView = z.infer<typeof deletionView>
