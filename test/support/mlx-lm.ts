import { mlxLmPart } from '../../tasks/setup/mlx-lm.ts'
import { skipWhen } from './skip.ts'

/** @returns the path of the real mlx_lm.server; where there is none the block's tests are skipped and it is empty. */
export function useMlxLm(): string {
  const found = mlxLmPart.find()
  if (found.found) return found.path
  skipWhen(found.reason)
  return ''
}
