import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildOnce, partFolder } from './cache.ts'
import { missingGo } from './go.ts'
import type { Found, Part } from './part.ts'
import { isExecutable, run } from './tools.ts'

const kubernetesVersion = '1.36.3'
const sourceFolder = join(import.meta.dirname, '../../test/support/control-plane')
const sources = ['main.go', 'go.mod', 'go.sum'].map((file) => readFileSync(join(sourceFolder, file), 'utf8'))

/** kube-apiserver with etcd: the folder of KUBEBUILDER_ASSETS, else our one binary. */
export const controlPlanePart: Part = {
  name: 'control-plane',
  about: `Kubernetes ${kubernetesVersion} API server with etcd; 5 to 10 minutes on 2 cores, once`,
  required: true,
  find: () => findAssets(process.env['KUBEBUILDER_ASSETS']) ?? findBuilt(),
  lacks: () => missingGo('1.26', 'set KUBEBUILDER_ASSETS'),
  build: (logFile) =>
    buildOnce(builtFolder(), async (workFolder) => {
      const output = join(workFolder, 'control-plane')
      await run(
        'go',
        ['build', '-v', '-mod=readonly', '-trimpath', '-buildvcs=false', '-ldflags=-s -w', '-o', output, '.'],
        {
          logFile,
          cwd: sourceFolder,
          env: { CGO_ENABLED: '0', GOFLAGS: '' },
        },
      )
    }),
}

function findBuilt(): Found {
  const path = join(builtFolder(), 'control-plane')
  return isExecutable(path)
    ? { found: true, path, origin: 'built' }
    : { found: false, reason: 'the Kubernetes API server is not built: run `make setup`' }
}

function builtFolder(): string {
  return partFolder('control-plane', kubernetesVersion, sources)
}

function findAssets(folder: string | undefined): Found | undefined {
  if (folder === undefined || folder === '') return undefined
  const missing = ['kube-apiserver', 'etcd'].filter((name) => !isExecutable(join(folder, name)))
  return missing.length === 0
    ? { found: true, path: join(folder, 'kube-apiserver'), origin: 'KUBEBUILDER_ASSETS' }
    : { found: false, reason: `KUBEBUILDER_ASSETS names ${folder}, which lacks ${missing.join(' and ')}` }
}
