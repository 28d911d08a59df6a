/** A well-known model by the name that LLMKube's own catalogue gives it. */
export interface CatalogueEntry {
  readonly name: string
  readonly title: string
  /** Such as `8B`: how many weights it has. */
  readonly parameters: string
  readonly quantization: string
  /** LLMKube's, so that both make the same Model of a name. */
  readonly source: string
}

const hub = (repo: string, file: string): string => `https://huggingface.co/${repo}/resolve/main/${file}.gguf`

/** By bartowski, whose files and repositories are named alike. */
const conversion = (model: string, quantization: string): string =>
  hub(`bartowski/${model}-GGUF`, `${model}-${quantization}`)

const entry = (
  name: string,
  title: string,
  parameters: string,
  { model, quantization }: { readonly model: string; readonly quantization: string },
): CatalogueEntry => ({ name, title, parameters, quantization, source: conversion(model, quantization) })

const q4 = (model: string) => ({ model, quantization: 'Q4_K_M' })
const q5 = (model: string) => ({ model, quantization: 'Q5_K_M' })

/** The smallest first. */
export const catalogue: readonly CatalogueEntry[] = [
  entry('llama-3.2-3b', 'Llama 3.2 3B Instruct', '3B', q5('Llama-3.2-3B-Instruct')),
  entry('phi-4-mini', 'Phi-4 Mini Instruct', '3.8B', q5('microsoft_Phi-4-mini-instruct')),
  entry('gemma-3-4b', 'Gemma 3 4B IT', '4B', q5('google_gemma-3-4b-it')),
  entry('mistral-7b', 'Mistral 7B Instruct v0.3', '7B', q5('Mistral-7B-Instruct-v0.3')),
  entry('qwen-2.5-coder-7b', 'Qwen 2.5 Coder 7B Instruct', '7B', q5('Qwen2.5-Coder-7B-Instruct')),
  entry('deepseek-r1-7b', 'DeepSeek R1 Distill Qwen 7B', '7B', q5('DeepSeek-R1-Distill-Qwen-7B')),
  entry('llama-3.1-8b', 'Llama 3.1 8B Instruct', '8B', q5('Meta-Llama-3.1-8B-Instruct')),
  entry('gemma-3-12b', 'Gemma 3 12B IT', '12B', q5('google_gemma-3-12b-it')),
  entry('qwen-2.5-14b', 'Qwen 2.5 14B Instruct', '14B', q5('Qwen2.5-14B-Instruct')),
  entry('deepseek-r1-14b', 'DeepSeek R1 Distill Qwen 14B', '14B', q5('DeepSeek-R1-Distill-Qwen-14B')),
  entry('mistral-small-24b', 'Mistral Small 24B Instruct', '24B', q4('Mistral-Small-24B-Instruct-2501')),
  entry('deepseek-r1-32b', 'DeepSeek R1 Distill Qwen 32B', '32B', q4('DeepSeek-R1-Distill-Qwen-32B')),
  entry('qwen-2.5-32b', 'Qwen 2.5 32B Instruct', '32B', q4('Qwen2.5-32B-Instruct')),
  entry('qwen-2.5-coder-32b', 'Qwen 2.5 Coder 32B Instruct', '32B', q4('Qwen2.5-Coder-32B-Instruct')),
  {
    ...entry('qwen-3-32b', 'Qwen 3 32B', '32B', q4('Qwen3-32B')),
    source: hub('Qwen/Qwen3-32B-GGUF', 'Qwen3-32B-Q4_K_M'),
  },
  {
    ...entry('mixtral-8x7b', 'Mixtral 8x7B Instruct', '8x7B', q4('Mixtral-8x7B-Instruct-v0.1')),
    source: hub('TheBloke/Mixtral-8x7B-Instruct-v0.1-GGUF', 'mixtral-8x7b-instruct-v0.1.Q4_K_M'),
  },
  entry('llama-3.3-70b', 'Llama 3.3 70B Instruct', '70B', q4('Llama-3.3-70B-Instruct')),
]

/** Of a name as a person types it; undefined where the catalogue does not have it. */
export const inCatalogue = (name: string): CatalogueEntry | undefined =>
  catalogue.find((one) => one.name === name.trim().toLowerCase())
