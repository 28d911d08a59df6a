import { useState } from 'react'
import type { ChosenFile } from '../../contract/app-bridge.ts'
import { editableRow, readSetting, type SettingName, type SettingView } from '../../contract/settings.ts'
import { Facts } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { ChoiceRow, SwitchRow, TextInput } from '../components/fields.tsx'
import { NoteGlyph } from '../components/glyph.tsx'
import { Sentence } from '../components/text.tsx'
import { type AnySetting, isOfStart, patchOfDraft, textOf, withWritten } from '../settings-draft.ts'
import { useApp, useTrust, useWindow } from '../store.ts'
import { settingWords, toldOf } from '../words/settings.ts'
import { MemorySlider } from './memory-slider.tsx'
import styles from './setting-field.module.css'

interface SettingRowProps {
  readonly view: AnySetting
  /** What a person wrote over it; undefined = nothing, null = the default. */
  readonly written: string | null | undefined
  /** The app's start file; undefined if the agent is started with flags. */
  readonly startFile: string | undefined
  /** A person was just led here. */
  readonly isFound: boolean
}

/** One setting: its field, or its value where it cannot be set here, and what few want to know once the row is opened. */
export function SettingRow({ view, written, startFile, isFound }: SettingRowProps) {
  const { title, help, more, value, facts, why, line, copyLine = '' } = toldOf(view, useTrust(), startFile)
  const write = useWindow((state) => state.write)
  const isEditable = !isOfStart(view) && why === undefined
  const change = (text: string | null) => {
    if (isEditable) write((before) => withWritten(before, view, text))
  }
  return (
    <div id={view.name} className={styles['row']} data-changed={written !== undefined} data-found={isFound}>
      {isEditable ? (
        <Field view={view} text={written === undefined ? textOf(view) : (written ?? '')} onChange={change} />
      ) : (
        <>
          <p className={styles['fixed']}>
            <strong className={styles['label']}>{title}</strong>
            <span className={styles['value']}>
              <Sentence text={value} />
            </span>
          </p>
          <p className={styles['note']}>
            <Sentence text={help} />
          </p>
        </>
      )}
      {written === null && <p className={styles['note']}>{settingWords.willBeDefault}</p>}
      <details className={styles['about']}>
        <summary className={styles['opener']} aria-label={settingWords.about(title)}>
          <NoteGlyph />
        </summary>
        <div className={styles['aboutText']}>
          {more !== undefined && (
            <p>
              <Sentence text={more} />
            </p>
          )}
          <Facts facts={facts} />
          {isEditable && view.from === 'person' && written !== null && (
            <div>
              <Button label={settingWords.defaultOf(title)} onPress={() => change(null)}>
                {settingWords.useDefault}
              </Button>
            </div>
          )}
          {why !== undefined && (
            <p>
              <Sentence text={why} />
            </p>
          )}
          {line !== undefined && <Command text={line} copyLabel={copyLine} />}
        </div>
      </details>
    </div>
  )
}

interface FieldProps {
  readonly view: SettingView
  readonly text: string
  readonly onChange: (text: string) => void
}

function Field({ view: { name }, text, onChange }: FieldProps) {
  const row = editableRow(name)
  const { kind, title, help, choices = {} } = row
  const read = kind === 'bytes' ? readSetting(kind, text) : undefined
  const bytes = read?.ok === true ? Number(read.value) : 0
  switch (kind) {
    case 'switch':
      return <SwitchRow title={title} help={help} isOn={text === 'on'} onChange={(on) => onChange(on ? 'on' : 'off')} />
    case 'choice':
      return <ChoiceRow title={title} help={help} words={choices} value={text} onChange={onChange} />
    default:
      return (
        <>
          <TextField
            name={name}
            title={title}
            text={text}
            help={bytes > 0 ? `${settingWords.isBytes(bytes)} ${help}` : help}
            onChange={onChange}
          />
          {name === 'memoryFraction' && <MemorySlider text={text} onChange={onChange} />}
        </>
      )
  }
}

const chosenFor: Readonly<Partial<Record<SettingName, ChosenFile>>> = {
  kubeconfig: 'kubeconfig',
  hubTokenFile: 'tokenFile',
  caFile: 'certificates',
}

interface TextFieldProps {
  readonly name: SettingName
  readonly title: string
  readonly text: string
  readonly help: string
  readonly onChange: (text: string) => void
}

/** A value that is written; a path may be chosen in a dialog of the app too. */
function TextField({ name, title, text, help, onChange }: TextFieldProps) {
  const app = useApp()
  const [refusal, setRefusal] = useState<string>()
  const file = editableRow(name).kind === 'executable' ? 'executable' : chosenFor[name]
  const isWrong = patchOfDraft({ [name]: text }).problems.length > 0
  const choose = async (what: ChosenFile) => {
    const reply = await app?.chooseFile(what)
    setRefusal(reply?.ok === false ? reply.failure.message : undefined)
    if (reply?.ok === true && reply.value !== null) onChange(reply.value)
  }
  return (
    <TextInput
      label={title}
      value={text}
      onChange={(written) => {
        setRefusal(undefined)
        onChange(written)
      }}
      help={help}
      problem={isWrong ? settingWords.problem(name) : refusal}
      placeholder={settingWords.placeholder}
      beside={
        app !== undefined &&
        file !== undefined && (
          <Button label={settingWords.chooseFor(title)} onPress={() => void choose(file)}>
            {settingWords.choose}
          </Button>
        )
      }
    />
  )
}
