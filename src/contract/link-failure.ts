import { z } from 'zod'
import { linkErrorCodes, LinkError } from './client.ts'

/** A LinkError on its way between two processes, where an error loses its class and everything but its message. */
export const linkFailure = z.object({
  code: z.enum(linkErrorCodes),
  /** One sentence for a person. */
  message: z.string(),
})
export type LinkFailure = z.infer<typeof linkFailure>

export const asLinkError = ({ code, message }: LinkFailure) => new LinkError(code, message)
