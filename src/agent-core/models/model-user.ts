/** A service whose Model's files are, or will be, in the store. */
export interface ModelUser {
  /** As namespace/name. */
  readonly service: string
  readonly model: string
  /** See `selectionDigest`. */
  readonly digest: string
  /** Neither suspended nor scaled to zero. */
  readonly isActive: boolean
}
