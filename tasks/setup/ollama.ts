import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { buildOnce, partFolder } from './cache.ts'
import { missingGo } from './go.ts'
import { llamaCppPins, llamaCppSource } from './llama-cpp-source.ts'
import type { Part } from './part.ts'
import { findProgram, onPath, run } from './tools.ts'

const version = '0.17.4'
/** A module that needs Ollama and nothing else: go.sum holds the hash of every module that Ollama is built from. */
const moduleFolder = join(import.meta.dirname, 'ollama')

/** The tests' models are tiny: less optimisation compiles sooner, and their answers take no longer. */
const optimisation = '-O1 -DNDEBUG'
const stamp = `-s -w -X=github.com/ollama/ollama/version.Version=${version}`

const inputs = [
  ...['go.mod', 'go.sum'].map((file) => readFileSync(join(moduleFolder, file), 'utf8')),
  ...llamaCppPins,
  optimisation,
  stamp,
]

/** Ollama: the one METALBAR_OLLAMA names, the one on PATH, else one built by Go, which computes on the processor on Linux. */
export const ollamaPart: Part = {
  name: 'ollama',
  about: `Ollama ${version}; 5 minutes on 2 cores, once`,
  required: true,
  find: () => findProgram('ollama', { variable: 'METALBAR_OLLAMA', builtFolder: builtFolder() }),
  lacks: async () => (await missingGo('1.24', instead)) ?? missingTool(),
  build: (logFile) => buildOnce(builtFolder(), (folder) => build(folder, logFile)),
}

const instead = 'install Ollama (`brew install ollama`)'

const builtFolder = (): string => partFolder('ollama', version, inputs)

function missingTool(): string | undefined {
  if (onPath('c++') === undefined) {
    return `A C++ compiler is needed to build it: \`apt-get install g++\` or \`xcode-select --install\`, or ${instead}`
  }
  return onPath('python3') === undefined
    ? `Python 3.9 or newer is needed to fetch its headers: get it from https://www.python.org/downloads/, or ${instead}`
    : undefined
}

/** Go's archive of Ollama leaves three headers out (nlohmann/json, stb_image, miniaudio); llama.cpp's source carries them. */
async function build(folder: string, logFile: string): Promise<void> {
  const work = join(folder, 'work')
  const { source } = await llamaCppSource(work, logFile)
  const flags = `${optimisation} -I${join(source, 'vendor')}`
  await run(
    'go',
    [
      ...['build', '-v', '-mod=readonly', '-trimpath', '-buildvcs=false', `-ldflags=${stamp}`],
      ...['-o', join(folder, 'ollama'), 'github.com/ollama/ollama'],
    ],
    { logFile, cwd: moduleFolder, env: { CGO_ENABLED: '1', CGO_CFLAGS: flags, CGO_CXXFLAGS: flags, GOFLAGS: '' } },
  )
  await rm(work, { recursive: true })
}
