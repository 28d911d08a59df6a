import { findExecutable, type Executable, type ExecutableSearch } from '../util/find-executable.ts'

export type Binary = Executable

const wanted = {
  name: 'llama-server',
  flag: '--llama-server',
  notInstalled: {
    darwin:
      'llama-server is not installed here: install it with "brew install llama.cpp", or say where it is with --llama-server.',
    linux:
      'llama-server is not on PATH: install llama.cpp, with "brew install llama.cpp" or as a package, or say where it is with --llama-server.',
  },
}

export const findLlamaServer = (search: ExecutableSearch): Promise<Binary> => findExecutable(wanted, search)
