import { createHash } from 'node:crypto'

export interface ServingInput {
  readonly executable: string
  readonly argv: (port: number) => readonly string[]
  /** What the service adds to the environment. */
  readonly env: Readonly<Record<string, string>>
  /** Where the model comes from: the file may keep its path when its source changes. */
  readonly modelSource: string
}

/** Which port a server got is no reason to restart it. */
const anyPort = 0

/**
 * SHA-256 (hex) over everything that reaches the process or its model, and nothing else: as long as it stays the same, no change
 * of the objects restarts the server.
 */
export function servingDigest({ executable, argv, env, modelSource }: ServingInput): string {
  const variables = Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([executable, argv(anyPort), variables, modelSource]))
    .digest('hex')
}
