import { load } from 'js-yaml'
import { z } from 'zod'
import type { Json } from './json.ts'

const json = z.custom<Json>((value) => value !== undefined)

/** One YAML document as it is written. Throws where it is no YAML. */
export const parseYaml = (text: string): Json => json.parse(load(text))
