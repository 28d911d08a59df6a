import { statfs } from 'node:fs/promises'
import type { ModelStoreView } from '../../contract/models.ts'
import { ModelError } from './errors.ts'
import type { Inventory } from './inventory.ts'
import type { StoreWatch } from './store-watch.ts'

interface StoreViewOptions {
  readonly directory: string
  readonly reserveBytes: number
  readonly watch: Pick<StoreWatch, 'look'>
  readonly inventory: Pick<Inventory, 'list'>
}

/** What is in the store. A store that cannot be read is a problem in the answer. */
export async function storeView(options: StoreViewOptions): Promise<ModelStoreView> {
  const { directory, reserveBytes, watch, inventory } = options
  const problem = await watch.look()
  const volume = await statfs(directory).catch(() => undefined)
  const facts = { directory, reserveBytes, ...(volume && { freeBytes: volume.bavail * volume.bsize }) }
  try {
    const models = await inventory.list()
    return { ...facts, ...(problem && { problem: problem.message }), models }
  } catch (error) {
    if (!(error instanceof ModelError)) throw error
    return { ...facts, problem: problem?.message ?? error.message, models: [] }
  }
}
