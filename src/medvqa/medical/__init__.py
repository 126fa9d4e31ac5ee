"""Pictures from DICOM files, NIfTI volumes and slides."""
