import { readGgufHeader } from '../../../../src/agent-core/models/gguf/file-header.ts'

/** A command that says what it reads in the header of the file that it is given. */
const { architecture, quantization, arrayLengths } = await readGgufHeader(process.argv[2] ?? '')
process.stdout.write(`${architecture} ${quantization} ${arrayLengths.get('tokenizer.ggml.tokens')}\n`)
