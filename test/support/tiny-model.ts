import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { writeLlamaGguf } from './gguf-writer.ts'
import type { KubeSim } from './kube-sim/kube-sim.ts'

/** Makes the Model `tiny`, whose file lies in the model store that an agent of the folder has. */
export async function tinyModel(sim: KubeSim, folder: string, gguf?: Parameters<typeof writeLlamaGguf>[1]) {
  const store = path.join(folder, 'models')
  await mkdir(store, { mode: 0o700 })
  const source = path.join(store, 'tiny.gguf')
  await writeLlamaGguf(source, gguf)
  sim.create({
    ...{ apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'Model', metadata: { name: 'tiny' } },
    spec: { source, format: 'gguf', hardware: { accelerator: 'metal' } },
  })
  return store
}
