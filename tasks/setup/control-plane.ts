import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildOnce, partFolder } from './cache.ts'
import { missingGo } from './go.ts'
import type { Found, Part } from './part.ts'
import { isExecutable, run } from './tools.ts'

export const kubernetesVersion = '1.36.3'
const sourceFolder = join(import.meta.dirname, '../../test/support/control-plane')
const sources = ['main.go', 'go.mod', 'go.sum'].map((file) => readFileSync(join(sourceFolder, file), 'utf8'))

/** The inputs that decide how what is built of the module comes out. */
export const kubernetesFolder = (name: string): string => partFolder(name, kubernetesVersion, sources)

/** A command of the module that pins Kubernetes for tests. */
export const buildKubernetes = (name: string, command: string, logFile: string): Promise<void> =>
  buildOnce(kubernetesFolder(name), (folder) =>
    run(
      'go',
      [
        ...['build', '-v', '-mod=readonly', '-trimpath', '-buildvcs=false', '-ldflags=-s -w'],
        ...['-o', join(folder, name), command],
      ],
      { logFile, cwd: sourceFolder, env: { CGO_ENABLED: '0', GOFLAGS: '' } },
    ),
  )

/** kube-apiserver with etcd: the folder of KUBEBUILDER_ASSETS, else our one binary. */
export const controlPlanePart: Part = {
  name: 'control-plane',
  about: `Kubernetes ${kubernetesVersion} API server with etcd; 5 to 10 minutes on 2 cores, once`,
  required: true,
  find: () => findAssets(process.env['KUBEBUILDER_ASSETS']) ?? findBuilt(),
  lacks: () => missingGo('1.26', 'set KUBEBUILDER_ASSETS'),
  build: (logFile) => buildKubernetes('control-plane', '.', logFile),
}

function findBuilt(): Found {
  const path = join(kubernetesFolder('control-plane'), 'control-plane')
  return isExecutable(path)
    ? { found: true, path, origin: 'built' }
    : { found: false, reason: 'the Kubernetes API server is not built: run `make setup`' }
}

function findAssets(folder: string | undefined): Found | undefined {
  if (folder === undefined || folder === '') return undefined
  const missing = ['kube-apiserver', 'etcd'].filter((name) => !isExecutable(join(folder, name)))
  return missing.length === 0
    ? { found: true, path: join(folder, 'kube-apiserver'), origin: 'KUBEBUILDER_ASSETS' }
    : { found: false, reason: `KUBEBUILDER_ASSETS names ${folder}, which lacks ${missing.join(' and ')}` }
}
